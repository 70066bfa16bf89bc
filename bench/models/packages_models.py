"""Models of small packages, which need them: pip install what a file of this family imports."""

import packages_images
import packages_measures
import packages_sequences
import packages_tables
from case import Case

PARTS = (packages_sequences, packages_images, packages_tables, packages_measures)


def cases() -> dict[str, Case]:
    groups = [group for part in PARTS for group in part.MODELS.items()]
    return {name: Case(group, make) for group, models in groups for name, make in models.items()}
