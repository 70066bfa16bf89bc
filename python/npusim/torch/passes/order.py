"""What is done to an exported program before it is written as IR: the passes, in their order."""

from __future__ import annotations

import torch

from ..facts.aliases import copied, without_failed
from ..facts.checks import hold_assertions
from ..functional.decompose import functionalised
from ..functional.given import with_restrides_shown
from ..functional.restrided import left_restrided, with_restrided
from ..tracing.branches import Asked
from ..tracing.dtypes import with_dtypes_shown
from .bins import settle_bins
from .chosen import spell_out_chosen
from .kernels import spell_out_kernels
from .loops import unroll_loops
from .masked import spell_out_masks
from .numbers import settle_numbers
from .pieces import spell_out_pieces
from .refused import refuse_by_line
from .resizes import follow_extents
from .results import return_tensors
from .scatters import join_writes
from .sizes import settle_sizes
from .sources import spell_out_argwhere, spell_out_empty
from .strided import spell_out_strides

# Programs of programs, each traced anew where it changes one: PyTorch's own view of shapes and memory.
TRACED = (return_tensors, functionalised, settle_numbers, settle_bins)
# Changes of the graph that they leave, in which no call writes what it is given and every operator is one that has a form.
SPELLED_OUT = (
    *(spell_out_kernels, follow_extents, spell_out_strides, join_writes, spell_out_argwhere, spell_out_empty),
    *(spell_out_masks, spell_out_pieces, spell_out_chosen),
)


def spell_out_all(graph: torch.fx.Graph) -> None:
    """These changes, one after the other."""
    for spell_out in SPELLED_OUT:
        spell_out(graph)


def prepared(
    program: torch.export.ExportedProgram, branches: dict[str, Asked] | None
) -> tuple[torch.export.ExportedProgram, torch.fx.Graph, list[str], set[str]]:
    """The program with what its passes make of it, the graph to be written, the sizes and branches that it is made for, and
    the arguments that it restrides in place and does not write. branches: who asks what the graph asserts, where branches are
    those of the example."""
    program = with_restrides_shown(with_dtypes_shown(without_failed(program)))
    refuse_by_line(program)
    left = left_restrided(program)
    for traced in TRACED:
        program = traced(program)
    program, unwritten = with_restrided(program, left)
    graph = copied(program.graph_module).graph
    made_for = unroll_loops(program, graph)
    spell_out_all(graph)
    made_for += settle_sizes(program, graph, branches)
    hold_assertions(graph)
    return program, graph, made_for, unwritten
