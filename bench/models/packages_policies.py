"""Models of small packages: policies and values of agents (stable-baselines3, torchrl)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, of


def policy(
    kind: str, actions: str, observations: tuple[int, ...] = (5,), method: str = "", **kwargs: Any
) -> Callable[[], Made]:
    """A policy of stable-baselines3: the action that it predicts, or what a method of it computes."""

    def make() -> Made:
        import gymnasium
        from stable_baselines3.common import policies
        from stable_baselines3.dqn.policies import DQNPolicy
        from stable_baselines3.sac.policies import SACPolicy
        from stable_baselines3.td3.policies import TD3Policy

        kinds = {"SACPolicy": SACPolicy, "TD3Policy": TD3Policy, "DQNPolicy": DQNPolicy}
        spaces = gymnasium.spaces
        image = len(observations) == 3
        seen = spaces.Box(0, 255, observations, dtype="uint8") if image else spaces.Box(-1, 1, observations)
        acted = {"discrete": spaces.Discrete(4), "box": spaces.Box(-1, 1, (2,)), "many": spaces.MultiDiscrete([3, 2])}
        found = kinds.get(kind) or getattr(policies, kind)
        made = found(seen, acted[actions], lambda _: 1e-3, **kwargs).eval()
        given = torch.randint(0, 256, (2, *observations), dtype=torch.uint8) if image else torch.randn(2, *observations)
        if method == "evaluate_actions":
            taken = {"discrete": torch.tensor([1, 3]), "box": torch.randn(2, 2), "many": torch.tensor([[1, 0], [2, 1]])}
            return Function(lambda x, a: made.evaluate_actions(x, a), made), (given, taken[actions]), {}
        return Function(lambda x: made._predict(x, deterministic=True), made), (given,), {}

    return make


def critics() -> Made:
    import gymnasium
    from stable_baselines3.sac.policies import SACPolicy

    spaces = gymnasium.spaces
    made = SACPolicy(spaces.Box(-1, 1, (5,)), spaces.Box(-1, 1, (2,)), lambda _: 1e-3, net_arch=[16]).eval()
    return Function(lambda x, a: made.critic(x, a), made), (torch.randn(3, 5), torch.randn(3, 2)), {}


def net(name: str, *given: Callable[[], torch.Tensor], **kwargs: Any) -> Callable[[], Made]:
    """One of torchrl's."""
    return lambda: (of(f"torchrl.modules.{name}", **kwargs), tuple(make() for make in given), {})


def estimated(path: str, **kwargs: Any) -> Callable[[], Made]:
    """An advantage over [batch, time, 1], with discounts of 0.9."""

    def make() -> Made:
        import importlib

        function = getattr(importlib.import_module("torchrl.objectives.value.functional"), path)
        given = (*(torch.randn(2, 10, 1) for _ in range(3)), torch.rand(2, 10, 1) < 0.2)
        return Function(lambda v, n, r, d: function(0.9, *kwargs.values(), v, n, r, d)), given, {}

    return make


def tanh_normal() -> Made:
    from torchrl.modules import TanhNormal

    def forward(mean: torch.Tensor, deviation: torch.Tensor, action: torch.Tensor) -> Any:
        found = TanhNormal(mean, deviation, low=-1.0, high=1.0)
        return found.log_prob(action), found.deterministic_sample

    return Function(forward), (torch.randn(4, 3), torch.rand(4, 3) + 0.2, torch.rand(4, 3) - 0.5), {}


def truncated() -> Made:
    from torchrl.modules import TruncatedNormal

    def forward(mean: torch.Tensor, deviation: torch.Tensor, action: torch.Tensor) -> Any:
        return TruncatedNormal(mean, deviation, low=-1.0, high=1.0).log_prob(action)

    return Function(forward), (torch.rand(4, 3) - 0.5, torch.rand(4, 3) + 0.2, torch.rand(4, 3) - 0.5), {}


def decision_transformer() -> Made:
    from torchrl.modules import DTActor

    config = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_inner": 32, "n_positions": 64, "resid_pdrop": 0.0}
    config |= {"activation": "relu", "attn_pdrop": 0.0}
    made = DTActor(state_dim=4, action_dim=2, transformer_config=config)
    return made, (torch.randn(2, 6, 4), torch.randn(2, 6, 2), torch.randn(2, 6, 1)), {}


def recurrent() -> Made:
    made = of("torchrl.modules.tensordict_module.rnn.GRU", 4, 8, num_layers=1, batch_first=True)
    return made, (torch.randn(2, 6, 4), torch.zeros(1, 2, 8)), {}


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "policies": {
        "actor_critic": policy("ActorCriticPolicy", "discrete"),
        "actor_critic_box": policy("ActorCriticPolicy", "box"),
        "actor_critic_many": policy("ActorCriticPolicy", "many"),
        "evaluate_discrete": policy("ActorCriticPolicy", "discrete", method="evaluate_actions"),
        "evaluate_box": policy("ActorCriticPolicy", "box", method="evaluate_actions"),
        "evaluate_many": policy("ActorCriticPolicy", "many", method="evaluate_actions"),
        "actor_critic_cnn": policy("ActorCriticCnnPolicy", "discrete", (4, 84, 84)),
        "sac": policy("SACPolicy", "box", net_arch=[16, 16]),
        "sac_critics": critics,
        "td3": policy("TD3Policy", "box", net_arch=[16, 16]),
        "dqn": policy("DQNPolicy", "discrete", net_arch=[16, 16]),
        "gae": estimated("vec_generalized_advantage_estimate", lmbda=0.95),
        "gae_steps": estimated("generalized_advantage_estimate", lmbda=0.95),
        "td_lambda": lambda: (
            Function(
                lambda n, r, d: of("torchrl.objectives.value.functional.td_lambda_return_estimate", 0.9, 0.95, n, r, d)
            ),
            (torch.randn(2, 10, 1), torch.randn(2, 10, 1), torch.rand(2, 10, 1) < 0.2),
            {},
        ),
        "tanh_normal": tanh_normal,
        "truncated_normal": truncated,
        "noisy_linear": net("NoisyLinear", lambda: torch.randn(3, 6), in_features=6, out_features=4),
        "atari_net": net("ConvNet", lambda: torch.randn(2, 3, 64, 64), in_features=3, num_cells=[8, 8, 8]),
        "distributional": net("DistributionalDQNnet", lambda: torch.randn(2, 6, 4)),
        "multi_agent": net(
            "MultiAgentMLP",
            lambda: torch.randn(2, 3, 5),
            n_agent_inputs=5,
            n_agent_outputs=2,
            n_agents=3,
            centralized=False,
            share_params=False,
            depth=1,
            num_cells=8,
        ),
        "qmix": net(
            "QMixer",
            lambda: torch.randn(2, 3, 1),
            lambda: torch.randn(2, 6),
            state_shape=(6,),
            mixing_embed_dim=8,
            n_agents=3,
            device="cpu",
        ),
        "decision_transformer": decision_transformer,
        "recurrent_policy": recurrent,
    },
}
