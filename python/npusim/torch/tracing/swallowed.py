"""What a model's own `except` takes of that which only its trace raises.

Eager PyTorch raises none of it: the model would go on another way than it goes."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from ..facts.messages import is_of_a_library

E = TypeVar("E", bound=BaseException)
Result = TypeVar("Result")
RAISED: ContextVar[list[BaseException] | None] = ContextVar("RAISED", default=None)


def noted(error: E) -> E:
    """The error, which the trace raises."""
    raised = RAISED.get()
    if raised is not None:
        raised.append(error)
    return error


def raising_swallowed(trace: Callable[[], Result]) -> Result:
    """What is traced. What was noted and taken by the model is raised at the end, whatever the trace ended with."""
    raised: list[BaseException] = []
    token = RAISED.set(raised)
    ended: BaseException | None = None
    try:
        result = trace()
    except BaseException as error:
        ended = error
    finally:
        RAISED.reset(token)
    # Outside of any handler: of an error that was made of it, it does not become an effect.
    for error in raised:
        if error is not ended and _is_taken_by_model(error):
            raise error
    if ended is not None:
        raise ended
    return result


def _is_taken_by_model(error: BaseException) -> bool:
    """A traceback begins in the frame that took the error."""
    traceback = error.__traceback__
    return traceback is not None and not is_of_a_library(traceback.tb_frame.f_code.co_filename)
