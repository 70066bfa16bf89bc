"""Models of small packages: probabilities, processes and flows (gpytorch, botorch, torch.distributions, pyro, zuko, normflows,
torchdiffeq, torchcde, torchsde, geoopt)."""

from collections.abc import Callable
from typing import Any

import torch
from case import Made
from packages_making import Function, Method, of
from torch import distributions, nn


def kernel(name: str, *rest: str, **kwargs: Any) -> Callable[[], Made]:
    """The covariance of two sets of points. rest: kernels around it, the innermost first."""

    def make() -> Made:
        from gpytorch import kernels

        made = getattr(kernels, name)(**kwargs)
        for outer in rest:
            made = getattr(kernels, outer)(made)
        return Function(lambda a, b: made(a, b).to_dense(), made), (torch.rand(2, 7, 3), torch.rand(2, 5, 3)), {}

    return make


def gaussian_process() -> Made:
    """The mean and variance that a regression predicts, as gpytorch's tutorial calls it."""
    import gpytorch

    class Regression(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))

    def predicted(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> Any:
        made.set_train_data(x, y, strict=False)
        made.prediction_strategy = None
        found = made.likelihood(made(at))
        return found.mean, found.variance

    x = torch.rand(12, 2)
    made = Regression(x, x.sum(1)).eval()
    return Function(predicted, made), (x, x.sin().sum(1), torch.rand(5, 2)), {}


def posterior() -> Made:
    """What that prediction computes: two solves with one Cholesky factor."""
    from gpytorch import kernels

    made = kernels.ScaleKernel(kernels.MaternKernel(nu=2.5, ard_num_dims=2))

    def predicted(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> Any:
        noisy = made(x).to_dense() + 0.1 * torch.eye(x.shape[0], dtype=x.dtype)
        factor = torch.linalg.cholesky(noisy)
        across = made(at, x).to_dense()
        weights = torch.cholesky_solve(y.unsqueeze(1), factor)
        half = torch.linalg.solve_triangular(factor, across.mT, upper=False)
        return (across @ weights).squeeze(1), made(at, at).to_dense().diagonal() - half.square().sum(0)

    x = torch.rand(12, 2)
    return Function(predicted, made), (x, x.sin().sum(1), torch.rand(5, 2)), {}


def deep_kernel() -> Made:
    from gpytorch import kernels

    body, made = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), kernels.RBFKernel()
    return (
        Function(lambda a, b: made(body(a), body(b)).to_dense(), body, made),
        (torch.randn(7, 6), torch.randn(5, 6)),
        {},
    )


def improvement() -> Made:
    """botorch's log expected improvement of a mean and a deviation."""
    from botorch.utils.probability.utils import log_ndtr, log_phi, log_prob_normal_in

    def forward(mean: torch.Tensor, deviation: torch.Tensor) -> Any:
        from botorch.acquisition.analytic import _log_ei_helper

        u = (mean - 0.3) / deviation
        return _log_ei_helper(u) + deviation.log(), log_ndtr(u), log_phi(u), log_prob_normal_in(u - 1, u)

    return Function(forward), (torch.randn(12), torch.rand(12) + 0.2), {}


def hypervolume() -> Made:
    from botorch.utils.multi_objective.pareto import is_non_dominated

    return Function(is_non_dominated), (torch.rand(2, 12, 3),), {}


def smooth_maxima() -> Made:
    from botorch.utils.safe_math import fatmax, logmeanexp, smooth_amax

    return (
        Function(lambda x: (smooth_amax(x), fatmax(x, dim=-1, tau=0.1), logmeanexp(x, dim=-1))),
        (torch.randn(4, 9),),
        {},
    )


def density(make: Callable[..., Any], *shapes: tuple[int, ...], positive: bool = True) -> Callable[[], Made]:
    """The log probability and the entropy: of the last argument, with the others as the parameters."""

    def forward(*given: torch.Tensor) -> Any:
        found = make(*given[:-1])
        try:
            return found.log_prob(given[-1]), found.entropy()
        except NotImplementedError:
            return found.log_prob(given[-1])

    draw = torch.rand if positive else torch.randn
    return lambda: (Function(forward), tuple(draw(shape) * 0.8 + 0.1 for shape in shapes), {})


def divergence(first: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Made]:
    def forward(*given: torch.Tensor) -> torch.Tensor:
        half = len(given) // 2
        return distributions.kl_divergence(first(*given[:half]), first(*given[half:]))

    return lambda: (Function(forward), tuple(torch.rand(shape) + 0.2 for shape in (*shapes, *shapes)), {})


def mixture(weights: torch.Tensor, means: torch.Tensor, deviations: torch.Tensor) -> Any:
    parts = distributions.Independent(distributions.Normal(means, deviations), 1)
    return distributions.MixtureSameFamily(distributions.Categorical(logits=weights), parts)


def many_normals(mean: torch.Tensor, factor: torch.Tensor) -> Any:
    return distributions.MultivariateNormal(mean, scale_tril=factor.tril() + torch.eye(factor.shape[-1]))


def squashed(mean: torch.Tensor, deviation: torch.Tensor) -> Any:
    return distributions.TransformedDistribution(
        distributions.Normal(mean, deviation),
        [distributions.SigmoidTransform(), distributions.AffineTransform(0.1, 1.4)],
    )


def hidden_markov() -> Made:
    def forward(start: torch.Tensor, steps: torch.Tensor, seen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        observed = of("pyro.distributions.Normal", seen, 1.0)
        return of("pyro.distributions.DiscreteHMM", start, steps, observed, duration=6).log_prob(x)

    return Function(forward), (torch.randn(3), torch.randn(3, 3), torch.randn(3), torch.randn(2, 6)), {}


def zuko(name: str, *args: Any, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        made = of(f"zuko.flows.{name}", *args, **kwargs)
        return Function(lambda x, c: made(c).log_prob(x), made), (torch.rand(6, 3) * 1.6 - 0.8, torch.randn(6, 2)), {}

    return make


def normal_flow(kind: str, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        import normflows

        step = {
            "coupling": lambda: normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2])),
            "spline": lambda: normflows.flows.CoupledRationalQuadraticSpline(2, 1, 8),
            "autoregressive": lambda: normflows.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8),
            "planar": lambda: normflows.flows.Planar(2, act="leaky_relu"),
            "residual": lambda: normflows.flows.Residual(normflows.nets.LipschitzMLP([2, 8, 2]), reduce_memory=False),
            "glow": lambda: normflows.flows.GlowBlock(4, 8),
        }[kind]
        if kind == "glow":
            return step(), (torch.randn(2, 4, 6, 6),), {}
        flows = [step(), normflows.flows.LULinearPermute(2), step()]
        made = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), flows)
        return Method(made, "log_prob"), (torch.rand(6, 2) - 0.5,), {}

    return make


class Motion(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 12), nn.Tanh(), nn.Linear(12, width))

    def forward(self, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * torch.cos(t)


def solved(method: str, **options: Any) -> Callable[[], Made]:
    """torchdiffeq's odeint at five times."""

    def make() -> Made:
        from torchdiffeq import odeint

        made = Motion()
        function = lambda x, t: odeint(made, x, t, method=method, **options)
        return Function(function, made), (torch.randn(4, 3), torch.linspace(0, 1, 5)), {}

    return make


def controlled() -> Made:
    """A neural controlled equation along a spline through what was seen, as torchcde's tutorial has it."""
    import torchcde

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6 * 3)

        def forward(self, t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return self.layer(z).tanh().view(z.shape[0], 6, 3)

    field, start = Field(), nn.Linear(3, 6)

    def forward(x: torch.Tensor) -> torch.Tensor:
        path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
        first = start(path.evaluate(path.interval[0]))
        options = {"step_size": 0.5}
        return torchcde.cdeint(path, field, first, path.interval, adjoint=False, method="rk4", options=options)[:, -1]

    return Function(forward, field, start), (torch.randn(4, 8, 3),), {}


def spline() -> Made:
    import torchcde

    return Function(torchcde.natural_cubic_coeffs), (torch.randn(2, 9, 3),), {}


def manifold(name: str, *args: Any, **kwargs: Any) -> Callable[[], Made]:
    def make() -> Made:
        made = of(f"geoopt.{name}", *args, **kwargs)

        def forward(x: torch.Tensor, v: torch.Tensor) -> Any:
            a, b = made.projx(x), made.projx(v)
            return made.expmap(a, made.proju(a, v * 0.1)), made.logmap(a, b), made.dist(a, b)

        return Function(forward), (torch.randn(5, 4) * 0.3, torch.randn(5, 4) * 0.3), {}

    return make


MODELS: dict[str, dict[str, Callable[[], Made]]] = {
    "processes": {
        "rbf": kernel("RBFKernel", "ScaleKernel", ard_num_dims=3),
        "matern": kernel("MaternKernel", nu=1.5),
        "periodic": kernel("PeriodicKernel"),
        "rational": kernel("RQKernel"),
        "polynomial": kernel("PolynomialKernel", power=2),
        "spectral_mixture": kernel("SpectralMixtureKernel", num_mixtures=2, ard_num_dims=3),
        "arc_kernel": kernel("CosineKernel", "ScaleKernel"),
        "piecewise_kernel": kernel("PiecewisePolynomialKernel", q=2),
        "gaussian_process": gaussian_process,
        "posterior": posterior,
        "deep_kernel": deep_kernel,
        "improvement": improvement,
        "non_dominated": hypervolume,
        "smooth_maxima": smooth_maxima,
    },
    "distributions": {
        "normal": density(distributions.Normal, (4, 3), (4, 3), (4, 3)),
        "beta": density(distributions.Beta, (4, 3), (4, 3), (4, 3)),
        "gamma": density(distributions.Gamma, (4, 3), (4, 3), (4, 3)),
        "dirichlet": density(lambda a: distributions.Dirichlet(a, validate_args=False), (4, 3), (4, 3)),
        "student": density(distributions.StudentT, (4, 3), (4, 3), (4, 3), (4, 3)),
        "von_mises": density(distributions.VonMises, (4, 3), (4, 3), (4, 3)),
        "weibull": density(distributions.Weibull, (4, 3), (4, 3), (4, 3)),
        "gumbel": density(distributions.Gumbel, (4, 3), (4, 3), (4, 3)),
        "kumaraswamy": density(distributions.Kumaraswamy, (4, 3), (4, 3), (4, 3)),
        "many_normals": density(many_normals, (4, 3), (4, 3, 3), (4, 3)),
        "low_rank": density(distributions.LowRankMultivariateNormal, (4, 3), (4, 3, 2), (4, 3), (4, 3)),
        "mixture": density(mixture, (4, 5), (4, 5, 3), (4, 5, 3), (4, 3)),
        "squashed": density(squashed, (4, 3), (4, 3), (4, 3)),
        "relaxed": density(lambda p: distributions.RelaxedBernoulli(torch.tensor(0.7), logits=p), (4, 3), (4, 3)),
        "lkj": density(lambda c: distributions.LKJCholesky(3, c, validate_args=False), (4,), (4, 3, 3)),
        "wishart": density(
            lambda f: distributions.Wishart(4.0, scale_tril=f.tril() + torch.eye(3), validate_args=False),
            (4, 3, 3),
            (4, 3, 3),
        ),
        "kl_normal": divergence(distributions.Normal, (4, 3), (4, 3)),
        "kl_beta": divergence(distributions.Beta, (4, 3), (4, 3)),
        "kl_gamma": divergence(distributions.Gamma, (4, 3), (4, 3)),
        "kl_dirichlet": divergence(distributions.Dirichlet, (4, 3)),
        "kl_many_normals": divergence(many_normals, (4, 3), (4, 3, 3)),
        "hidden_markov": hidden_markov,
    },
    "flows, equations": {
        "zuko_maf": zuko("MAF", 3, 2, transforms=2, hidden_features=(8,)),
        "zuko_nsf": zuko("NSF", 3, 2, transforms=1, hidden_features=(8,)),
        "zuko_naf": zuko("NAF", 3, 2, transforms=1, hidden_features=(8,), network={"hidden_features": (6,)}),
        "zuko_sospf": zuko("SOSPF", 3, 2, transforms=1, hidden_features=(8,), degree=2, polynomials=2),
        "zuko_bpf": zuko("BPF", 3, 2, transforms=1, hidden_features=(8,), degree=4),
        "zuko_ncsf": zuko("NCSF", 3, 2, transforms=1, hidden_features=(8,)),
        "zuko_gf": zuko("GF", 3, 2, transforms=2, hidden_features=(8,)),
        "zuko_nice": zuko("NICE", 3, 2, transforms=2, hidden_features=(8,)),
        "zuko_gmm": zuko("GMM", 3, 2, components=3, hidden_features=(8,)),
        "real_nvp": normal_flow("coupling"),
        "coupled_spline": normal_flow("spline"),
        "autoregressive_spline": normal_flow("autoregressive"),
        "planar": normal_flow("planar"),
        "residual_flow": normal_flow("residual"),
        "glow": normal_flow("glow"),
        "ode_rk4": solved("rk4"),
        "ode_euler": solved("euler", options={"step_size": 0.1}),
        "ode_midpoint": solved("midpoint"),
        "ode_adams": solved("explicit_adams", options={"step_size": 0.1}),
        "ode_dopri5": solved("dopri5", rtol=1e-3, atol=1e-3),
        "controlled": controlled,
        "natural_spline": spline,
        "poincare_ball": manifold("PoincareBall"),
        "sphere": manifold("Sphere"),
        "lorentz": manifold("Lorentz"),
        "stereographic": manifold("Stereographic", 0.5),
    },
}
