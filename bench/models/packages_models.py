"""Models of small packages, which need them: pip install what a file of this family imports."""

import packages_audio
import packages_detection
import packages_forecasts
import packages_graphs
import packages_images
import packages_losses
import packages_measures
import packages_medical
import packages_policies
import packages_processes
import packages_restoration
import packages_sequences
import packages_tables
from case import Case

PARTS = (
    packages_sequences,
    packages_images,
    packages_tables,
    packages_measures,
    packages_graphs,
    packages_audio,
    packages_medical,
    packages_restoration,
    packages_detection,
    packages_losses,
    packages_processes,
    packages_policies,
    packages_forecasts,
)


def cases() -> dict[str, Case]:
    groups = [group for part in PARTS for group in part.MODELS.items()]
    return {name: Case(group, make) for group, models in groups for name, make in models.items()}
