"""Models of small packages: graphs, molecules, and what turns with its arguments (torch_geometric, e3nn)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, ids, of
from torch import nn

NODES, EDGES = 24, 60


def edges(nodes: int = NODES, count: int = EDGES) -> torch.Tensor:
    """[2, count], both ways and no loops, as of a data set."""
    first = ids(count // 2, below=nodes)
    second = (first + torch.randint(1, nodes, first.shape)) % nodes
    return torch.stack([torch.cat([first, second]), torch.cat([second, first])])


def graphs() -> torch.Tensor:
    """Which of three graphs a node belongs to, as a DataLoader's batches have it."""
    return torch.arange(NODES) * 3 // NODES


def features(channels: int = 8, nodes: int = NODES) -> torch.Tensor:
    return torch.randn(nodes, channels)


def gnn(kind: str, **kwargs: Any) -> Callable[[], Made]:
    """One of torch_geometric's whole networks."""
    sizes = {"in_channels": 8, "hidden_channels": 16, "num_layers": 2, "out_channels": 4}
    return lambda: (of(f"torch_geometric.nn.{kind}", **(sizes | kwargs)), (features(), edges()), {})


class Classifier(nn.Module):
    """Two convolutions, a pooling over each graph, and a linear layer: the example of every graph library."""

    def __init__(self, pool: Callable[..., Any], *convolutions: nn.Module, width: int = 16) -> None:
        super().__init__()
        self.convolutions, self.pool = nn.ModuleList(convolutions), pool
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            x = convolution(x, edge_index).relu()
        return self.head(self.pool(x, batch))


def classifier(pool: str, width: int = 16) -> Callable[[], Made]:
    """pool: a function of torch_geometric, or one of its classes of aggregations."""

    def make() -> Made:
        from torch_geometric import nn as layers

        found = getattr(layers, pool, None) if pool.startswith("global") else None
        made = found or of(f"torch_geometric.nn.aggr.{pool}", **AGGREGATIONS[pool])
        convolutions = (layers.GCNConv(8, 16), layers.GraphConv(16, 16))
        return Classifier(made, *convolutions, width=width), (features(), edges(), graphs()), {}

    return make


AGGREGATIONS: dict[str, dict[str, Any]] = {
    "SoftmaxAggregation": {"learn": True},
    "Set2Set": {"in_channels": 16, "processing_steps": 2},
    "SortAggregation": {"k": 3},
    "MedianAggregation": {},
    "LSTMAggregation": {"in_channels": 16, "out_channels": 16},
    "VarAggregation": {},
}


def convolution(kind: str, *args: Any, edge: int = 0, **kwargs: Any) -> Callable[[], Made]:
    """One layer. edge: how many channels its edges have."""

    def make() -> Made:
        given = (features(), edges(), *((torch.rand(EDGES, edge),) if edge else ()))
        return of(f"torch_geometric.nn.{kind}", *args, **kwargs), given, {}

    return make


def unet() -> Made:
    return of("torch_geometric.nn.GraphUNet", 8, 16, 4, depth=2, pool_ratios=0.5), (features(), edges()), {}


def topk_pooling() -> Made:
    from torch_geometric.nn import TopKPooling

    pool = TopKPooling(8, ratio=0.5)
    return Function(lambda x, e, b: pool(x, e, None, b)[:4:3], pool), (features(), edges(), graphs()), {}


def dense_diff_pool() -> Made:
    from torch_geometric.nn import dense_diff_pool

    adjacency = (torch.rand(2, 12, 12) < 0.3).float()
    return Function(dense_diff_pool), (torch.randn(2, 12, 8), adjacency, torch.randn(2, 12, 4)), {}


def schnet() -> Made:
    """Its neighbours as PyTorch finds them: torch_geometric's own search is a library of its own."""

    def neighbours(at: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        apart = (at.unsqueeze(1) - at).norm(dim=-1)
        near = (apart < 5.0) & (batch.unsqueeze(1) == batch) & ~torch.eye(len(at), dtype=torch.bool)
        found = near.nonzero().t()
        return found, apart[found[0], found[1]]

    sizes = {"hidden_channels": 16, "num_filters": 16, "num_interactions": 2, "num_gaussians": 10}
    made = of("torch_geometric.nn.SchNet", interaction_graph=neighbours, **sizes)
    return made, (ids(NODES, below=9) + 1, torch.randn(NODES, 3) * 2, graphs()), {}


def relational() -> Made:
    made = of("torch_geometric.nn.RGCNConv", 8, 16, num_relations=3, num_bases=2)
    return made, (features(), edges(), ids(EDGES, below=3)), {}


def heterogeneous() -> Made:
    from torch_geometric.nn import HeteroConv, SAGEConv

    made = HeteroConv(
        {("user", "buys", "item"): SAGEConv((8, 8), 16), ("item", "sold", "user"): SAGEConv((8, 8), 16)}, aggr="sum"
    )

    def forward(users: torch.Tensor, items: torch.Tensor, buys: torch.Tensor) -> Any:
        found = made(
            {"user": users, "item": items}, {("user", "buys", "item"): buys, ("item", "sold", "user"): buys.flip(0)}
        )
        return found["user"], found["item"]

    return Function(forward, made), (features(), features(nodes=NODES), edges()), {}


def point_net() -> Made:
    made = of("torch_geometric.nn.PointNetConv", nn.Linear(11, 16), nn.Linear(16, 16))
    return made, (features(), torch.randn(NODES, 3), edges()), {}


def edge_conv() -> Made:
    layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    return of("torch_geometric.nn.EdgeConv", layers), (features(), edges()), {}


def graph_transformer() -> Made:
    from torch_geometric.nn import GINConv, GPSConv

    made = GPSConv(16, GINConv(nn.Linear(16, 16)), heads=2)
    return made, (features(16), edges(), graphs()), {}


def lightgcn() -> Made:
    return of("torch_geometric.nn.LightGCN", NODES, 16, 2), (edges(),), {}


def attentive() -> Made:
    made = of("torch_geometric.nn.AttentiveFP", 8, 16, 3, edge_dim=4, num_layers=2, num_timesteps=2)
    return made, (features(), edges(), torch.randn(EDGES, 4), graphs()), {}


def equivariant_messages() -> Made:
    """Messages over edges whose directions turn with the molecule."""
    from e3nn import o3
    from e3nn.nn.models.v2106.points_convolution import Convolution

    made = Convolution("8x0e + 4x1o", "1x0e", "1x0e + 1x1o", "8x0e + 4x1o", [8, 16], num_neighbors=3.0)
    given, sides = torch.randn(NODES, 20), torch.ones(NODES, 1)
    first, second = edges()

    def forward(x: torch.Tensor, at: torch.Tensor, lengths: torch.Tensor, first: Any, second: Any) -> torch.Tensor:
        directions = o3.spherical_harmonics("1x0e + 1x1o", at[second] - at[first], True, normalization="component")
        return made(x, sides, first, second, directions, lengths)

    return Function(forward, made), (given, torch.randn(NODES, 3), torch.rand(EDGES, 8), first, second), {}


def sphere_activation() -> Made:
    from e3nn import nn as layers

    return layers.S2Activation("1x0e + 1x1o + 1x2e", torch.tanh, 8), (torch.randn(6, 9),), {}


def equivariant_norm() -> Made:
    from e3nn import nn as layers

    made = nn.Sequential(layers.BatchNorm("8x0e + 4x1o"), layers.NormActivation("8x0e + 4x1o", torch.sigmoid))
    return made, (torch.randn(6, 20),), {}


def harmonics() -> Made:
    from e3nn import o3

    return Function(lambda x: o3.spherical_harmonics([0, 1, 2, 3], x, normalize=True)), (torch.randn(2, 10, 3),), {}


def tensor_product() -> Made:
    from e3nn import o3

    made = o3.FullyConnectedTensorProduct("8x0e + 4x1o", "1x0e + 1x1o + 1x2e", "6x0e + 3x1o + 2x2e")
    return made, (torch.randn(6, 20), torch.randn(6, 9)), {}


def gate() -> Made:
    from e3nn import nn as layers
    from e3nn import o3

    activated = layers.Gate("8x0e", [torch.nn.functional.silu], "4x0e", [torch.sigmoid], "4x1o")
    made = nn.Sequential(o3.Linear("8x0e + 4x1o", activated.irreps_in), activated)
    return made, (torch.randn(6, 20),), {}


def bessel() -> Made:
    from e3nn.math import soft_one_hot_linspace

    function = lambda x: soft_one_hot_linspace(x, 0.0, 3.0, 8, basis="bessel", cutoff=True)
    return Function(function), (torch.rand(20) * 4,), {}


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "graphs": {
        "gcn": gnn("GCN"),
        "gat": gnn("GAT", heads=2, v2=True),
        "graph_sage": gnn("GraphSAGE", aggr="max", norm="layer"),
        "gin": gnn("GIN", jk="cat"),
        "pna": gnn("PNA", aggregators=["mean", "max", "std"], scalers=["identity", "attenuation"], deg=torch.arange(6)),
        "edge_cnn": gnn("EdgeCNN"),
        "graph_unet": unet,
        "mean_pool": classifier("global_mean_pool"),
        "max_pool": classifier("global_max_pool"),
        "softmax_pool": classifier("SoftmaxAggregation"),
        "set2set": classifier("Set2Set", 32),
        "sort_pool": classifier("SortAggregation", 48),
        "median_pool": classifier("MedianAggregation"),
        "lstm_pool": classifier("LSTMAggregation"),
        "var_pool": classifier("VarAggregation"),
        "topk_pool": topk_pooling,
        "diff_pool": dense_diff_pool,
        "cheb_conv": convolution("ChebConv", 8, 16, K=3),
        "tag_conv": convolution("TAGConv", 8, 16),
        "arma_conv": convolution("ARMAConv", 8, 16, num_stacks=2, num_layers=2),
        "transformer_conv": convolution("TransformerConv", 8, 16, heads=2, edge_dim=4, edge=4),
        "nn_conv": convolution("NNConv", 8, 4, nn.Linear(3, 32), edge=3),
        "gine_conv": convolution("GINEConv", nn.Linear(8, 16), edge_dim=4, edge=4),
        "gated_graph": convolution("GatedGraphConv", 16, num_layers=2),
        "gen_conv": convolution("GENConv", 8, 16),
        "film_conv": convolution("FiLMConv", 8, 16),
        "edge_conv": edge_conv,
        "point_net": point_net,
        "rgcn": relational,
        "hetero_sage": heterogeneous,
        "graph_gps": graph_transformer,
        "light_gcn": lightgcn,
        "attentive_fp": attentive,
    },
    "molecules, symmetries": {
        "schnet": schnet,
        "equivariant_messages": equivariant_messages,
        "sphere_activation": sphere_activation,
        "equivariant_norm": equivariant_norm,
        "harmonics": harmonics,
        "tensor_product": tensor_product,
        "gate": gate,
        "bessel": bessel,
    },
}
