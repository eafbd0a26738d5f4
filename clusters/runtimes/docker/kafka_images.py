"""Copy Kafka's libraries out of its images."""

from __future__ import annotations

from pathlib import Path

from docker.errors import NotFound

from clusters.runtimes.docker.daemon import connected, trying
from clusters.runtimes.docker.image import has_image
from history.errors import BadKafka, HarnessError

LIBRARIES = "/opt/kafka/libs"


def image_id(reference: str) -> str:
    """Return an image's id; pull it if missing.

    Raises:
        BadKafka: no Docker daemon responds, or no registry has it.
    """
    try:
        with connected(timeout_s=600) as client:
            there = has_image(client, reference)
            with trying(f"pull {reference}", advice="correct its name, let Docker reach its registry, or build it"):
                found = client.images.get(reference) if there else client.images.pull(reference)
    except HarnessError as error:
        raise BadKafka(f"image:{reference}", f" cannot be had: {error}") from error
    return str((found[0] if isinstance(found, list) else found).id)


def copy_out_of_image(reference: str, identity: str, archive: Path) -> None:
    """Write an image's Kafka libraries to a tar file; the image never runs.

    Raises:
        BadKafka: it has none at Kafka's usual path.
    """
    with connected(timeout_s=600) as client, trying(f"copy {LIBRARIES} out of {reference}"):
        container = client.containers.create(identity, ["none"])
        try:
            parts, _ = container.get_archive(LIBRARIES)
            with archive.open("wb") as file:
                file.writelines(parts)
        except NotFound as error:
            raise BadKafka(f"image:{reference}", f" holds no {LIBRARIES}, where Kafka's own images have it.") from error
        finally:
            container.remove()
