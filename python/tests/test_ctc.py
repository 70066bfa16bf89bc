"""The CTC loss, which torch.export traces with npusim's help: lengths as numbers and as tensors."""

import npusim
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn


class Loss(nn.Module):
    def __init__(self, lengths=None, **kwargs):
        super().__init__()
        self.loss = nn.CTCLoss(**kwargs)
        self.lengths = lengths

    def forward(self, x, targets, *lengths):
        return self.loss(x.log_softmax(-1), targets, *(self.lengths or lengths))


def check(model, *args, strict=False, tolerance=1e-5):
    session = npusim.Session(npusim.compile(npusim.export(model, args, strict=strict), dtype="float32"))
    found, expected = session.run(*args)["output"], model(*args).detach().numpy()
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance)
    return session


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_lengths_as_numbers_and_as_tensors(reduction, zero_infinity, strict):
    x, targets = torch.randn(9, 3, 6), torch.randint(1, 6, (3, 4))
    targets[1] = 2  # repeated too often for its time
    lengths = torch.tensor([9, 6, 0]), torch.tensor([4, 4, 0])
    kwargs = {"reduction": reduction, "zero_infinity": zero_infinity}
    check(Loss(**kwargs), x, targets, *lengths, strict=strict)
    check(Loss(tuple(tuple(length.tolist()) for length in lengths), **kwargs), x, targets, strict=strict)


def test_concatenated_targets():
    check(
        Loss(blank=3), torch.randn(9, 3, 6), torch.randint(0, 3, (7,)), torch.tensor([9, 7, 5]), torch.tensor([4, 1, 2])
    )


def test_without_a_batch():
    check(Loss(reduction="none"), torch.randn(9, 6), torch.randint(1, 6, (4,)), torch.tensor(9), torch.tensor(4))


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float32"])
def test_behind_a_model(dtype):
    """Sums over many steps are kept in float32, whatever activations are stored in."""

    class Recognizer(Loss):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 12)

        def forward(self, x, targets, *lengths):
            return super().forward(self.head(x), targets, *lengths)

    model, x, targets = Recognizer(), torch.randn(400, 2, 16), torch.randint(1, 12, (2, 30))
    lengths = torch.tensor([400, 333]), torch.tensor([30, 25])
    session = npusim.Session(npusim.compile(npusim.export(model, (x, targets, *lengths)), dtype=dtype))
    found, expected = session.run(x, targets, *lengths)["output"], model(x, targets, *lengths).item()
    assert abs(float(found) - expected) < (1e-5 if dtype == "float32" else 2e-3) * abs(expected)


@pytest.mark.parametrize("lengths", [([10, 9], [3, 2]), ([9, -1], [3, 2]), ([9, 9], [5, 2]), ([9, 9], [3, -1])])
def test_lengths_of_nothing_that_is_there(lengths):
    args = torch.randn(9, 2, 6), torch.randint(1, 6, (2, 4)), torch.tensor([9, 9]), torch.tensor([4, 4])
    session = check(Loss(), *args)
    with pytest.raises(npusim.BadInputError, match="length"):
        session.run(*args[:2], *(torch.tensor(length) for length in lengths))


def test_lengths_of_more_or_less_than_the_targets():
    args = torch.randn(9, 2, 6), torch.randint(1, 6, (5,)), torch.tensor([9, 9]), torch.tensor([3, 2])
    session = check(Loss(), *args)
    for lengths in ([3, 1], [3, 3]):
        with pytest.raises(npusim.BadInputError, match="length"):
            session.run(*args[:3], torch.tensor(lengths))


def test_torch_export_is_as_it_was():
    """What helps it is there while npusim traces."""
    args = torch.randn(9, 2, 6), torch.randint(1, 6, (2, 4)), torch.tensor([9, 9]), torch.tensor([4, 4])
    before = torch.ctc_loss
    npusim.export(Loss(), args)
    assert torch.ctc_loss is before
    with pytest.raises(torch._subclasses.fake_tensor.DynamicOutputShapeException):
        torch.export.export(Loss(), args)
