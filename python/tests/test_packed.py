"""Packed sequences of known lengths."""

import random

import npusim
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence, unpack_sequence


class Net(nn.Module):
    def __init__(self, layer, lengths, **how):
        super().__init__()
        self.layer, self.lengths, self.how = layer, lengths, how

    def forward(self, x, state=None):
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, self.lengths, batch_first=first, enforce_sorted=False)
        out, ends = self.layer(packed, state)
        padded, lengths = pad_packed_sequence(out, batch_first=first, **self.how)
        return padded, ends, lengths, packed.data


def agree(model, *args, **kwargs):
    model = model.eval()
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
    tensors = [value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    found = npusim.Session(npusim.compile(model, args, kwargs, dtype="float32")).run(*tensors)
    for one, value in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(one), value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_layers(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    batch, first = rng.randrange(1, 6), rng.random() < 0.5
    lengths = [rng.randrange(1, 6) for _ in range(batch)]
    kind, more = rng.choice([(nn.LSTM, {}), (nn.LSTM, {"proj_size": 2}), (nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"})])
    layer = kind(3, 4, rng.randrange(1, 3), bidirectional=rng.random() < 0.5, bias=rng.random() < 0.8, batch_first=first, **more)
    how = rng.choice([{}, {"total_length": max(lengths) + 2}, {"padding_value": -1.0}])
    given = rng.choice([lengths, torch.tensor(lengths)])
    x = torch.randn(*((batch, max(lengths)) if first else (max(lengths), batch)), 3)
    if rng.random() < 0.5:
        agree(Net(layer, given, **how), x)
    else:
        rows = layer.num_layers * (1 + layer.bidirectional)
        states = [torch.randn(rows, batch, size) for size in (more.get("proj_size", 4), 4)]
        agree(Net(layer, given, **how), x, tuple(states) if kind is nn.LSTM else states[1])


def test_sequences_of_a_list():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(4, 5, bidirectional=True)
            self.head = nn.Linear(10, 2)

        def forward(self, x):
            packed = pack_sequence([x[0], x[1, :2], x[2, :4], x[1, :2] * 2], enforce_sorted=False)
            out, end = self.layer(packed)
            scores = out._replace(data=self.head(out.data).tanh())
            return pad_packed_sequence(scores)[0], end

    agree(Model(), torch.randn(3, 4, 4))


def test_lengths_that_are_an_argument():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 5)

        def forward(self, x, lengths):
            out, _ = self.layer(pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False))
            return pad_packed_sequence(out)[0]

    model, x, lengths = Model().eval(), torch.randn(3, 4, 4), torch.tensor([2, 3, 1, 3])
    exported = npusim.export(model, (x,), {"lengths": lengths}, fixed=["lengths"])
    found = npusim.Session(npusim.compile(exported, dtype="float32")).run(x)["output"]
    torch.testing.assert_close(torch.from_numpy(found), model(x, lengths).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(npusim.UnsupportedError, match="lengths are not known.*fixed"):
        npusim.export(model, (x, lengths))


class Packs(nn.Module):
    """Packs its arguments, sequences, without any layer that takes packed ones, unless there is one between."""

    def __init__(self, seed, lengths):
        super().__init__()
        self.seed, self.lengths, self.linear = seed, torch.tensor(lengths), nn.Linear(3, 3)
        self.between = nn.GRU(3, 3) if seed % 4 == 0 else None

    def packed(self, rng, sequences):
        ways = [
            lambda padded, first: ([len(one) for one in sequences], padded),
            lambda padded, first: (torch.tensor([one.shape[0] for one in sequences]), padded),
            lambda padded, first: (torch.as_tensor([one.size(0) for one in sequences], dtype=torch.int32), padded),
            lambda padded, first: (self.lengths, padded * 2),
            lambda padded, first: (torch.stack([torch.tensor(len(one)) for one in sequences]), padded),
        ]
        if rng.random() < 0.3:
            return pack_sequence(sequences, enforce_sorted=False)
        first = rng.random() < 0.5
        lengths, padded = rng.choice(ways)(pad_sequence(sequences, batch_first=first), first)
        return pack_padded_sequence(padded, lengths, batch_first=first, enforce_sorted=False)

    def forward(self, *sequences):
        rng = random.Random(self.seed)
        packed = self.packed(rng, sequences)
        data = self.linear(packed.data).tanh()
        fields = (packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        packed = PackedSequence(data, *fields) if rng.random() < 0.5 else packed._replace(data=data)
        packed = packed if self.between is None else self.between(packed)[0]
        how = rng.randrange(3)
        if how == 0:
            return unpack_sequence(packed)
        return pad_packed_sequence(packed, batch_first=how == 1), packed.data


@pytest.mark.filterwarnings("ignore:the program is made for")
@pytest.mark.parametrize("seed", range(16))
def test_sequences_that_are_arguments(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    lengths = [rng.randrange(1, 6) for _ in range(rng.randrange(1, 5))]
    agree(Packs(seed, lengths), *(torch.randn(length, 3) for length in lengths))


def test_lengths_that_nobody_knows():
    class Model(nn.Module):
        def forward(self, x, lengths):
            try:
                return pack_padded_sequence(x, lengths, enforce_sorted=False).data
            except RuntimeError:  # which no second trace is
                return x

    with pytest.raises(npusim.UnsupportedError, match="lengths are not known.*fixed"):
        npusim.export(Model(), (torch.randn(3, 2, 4), torch.tensor([2, 3])))
