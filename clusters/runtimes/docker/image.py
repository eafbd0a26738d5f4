"""The image of all nodes, whatever their role and version of Kafka: how it is built, and scripts that run in it."""

from __future__ import annotations

import hashlib
import logging
import shutil
from pathlib import Path
from typing import Any

import docker
from docker.errors import ContainerError, ImageNotFound

from clusters.paths import CACHE, locked
from clusters.runtimes.client_libraries import client_libraries
from clusters.runtimes.docker.daemon import RUN_LABEL, connected, trying
from history.commands import run_command
from history.errors import BadInput, HarnessError
from history.java import Java
from history.scratch import scratch

log = logging.getLogger("plimsoll.docker")

BASE_IMAGE = "debian:bookworm-slim"
NO_NEW_PRIVILEGES = ["no-new-privileges:true"]  # no set-uid program of an image gives its caller more
DOCKERFILE = Path(__file__).with_name("node") / "Dockerfile"


def fetch_what_nodes_need(java: Java) -> None:
    """Build the node image and fetch the client libraries where they are missing, so that no start waits for them.

    Raises:
        BadInput: the Java that servers are to run on does not run in the image.
        HarnessError: one of them cannot be had.
    """
    with connected(timeout_s=600) as client:
        _check_java(client, java)
        client_libraries()


def _check_java(client: docker.DockerClient, java: Java) -> None:
    """One that was built for a newer system's libraries would let every server exit at once.

    Of each image and Java that is tried once: a file in ``.cache/java-in-image`` says that it ran.
    """
    tag, home = node_image(client), str(java.home)
    with trying(f"look at the node image {tag}"):
        image_id = client.images.get(tag).id
    known = CACHE / "java-in-image" / hashlib.sha256(f"{image_id} {home} {java}".encode()).hexdigest()[:16]
    if known.is_file():
        return
    mounts = {home: {"bind": home, "mode": "ro"}}
    with trying(f"run Java {java} in the node image"):
        try:
            client.containers.run(
                tag,
                [java.command, "-version"],
                volumes=mounts,
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=NO_NEW_PRIVILEGES,
                remove=True,
            )
        except ContainerError as error:
            stderr = error.stderr or b""
            output = (stderr if isinstance(stderr, str) else stderr.decode(errors="replace")).strip().splitlines()
            raise BadInput(
                f"Java {java} does not run in the node image ({output[0] if output else 'no output'}); leave --java "
                "out, or name the folder of a JDK that is built for older systems, such as Temurin's."
            ) from error
    known.parent.mkdir(parents=True, exist_ok=True)
    known.touch()


def node_image(client: docker.DockerClient) -> str:
    """The tag of the node image, built when it is not there yet; the tag changes with the Dockerfile.

    Raises:
        HarnessError: neither a registry nor mmdebstrap can give the base image, or the build failed.
    """
    tag = f"plimsoll-node:{hashlib.sha256(DOCKERFILE.read_bytes()).hexdigest()[:12]}"
    if has_image(client, tag):
        return tag
    with locked(CACHE / ".image.lock"):
        if not has_image(client, tag):
            log.info("building the node image, once (about 15 s, or 2 min where no image registry answers)")
            _base_image(client)
            with trying(f"build the node image from {DOCKERFILE}"):
                # The build's own network would be the default bridge, which some hosts do not route.
                client.images.build(path=str(DOCKERFILE.parent), tag=tag, network_mode="host", rm=True, forcerm=True)
    return tag


def has_image(client: docker.DockerClient, reference: str) -> bool:
    """Whether the daemon has an image, without asking a registry."""
    with trying(f"look for the image {reference}"):
        try:
            client.images.get(reference)
        except ImageNotFound:
            return False
    return True


def _base_image(client: docker.DockerClient) -> None:
    if has_image(client, BASE_IMAGE):
        return
    try:
        with trying(f"pull {BASE_IMAGE}", advice="install Debian's mmdebstrap to build it here"):
            client.images.pull(BASE_IMAGE)
    except HarnessError:
        if not shutil.which("mmdebstrap"):
            raise
        _build_base_image(client)


def _build_base_image(client: docker.DockerClient) -> None:
    with scratch() as folder:
        archive = folder / "base.tar"
        done = run_command(["mmdebstrap", "--variant=minbase", "bookworm", str(archive)])
        if done.returncode:
            raise HarnessError(
                f"mmdebstrap could not build {BASE_IMAGE}: {done.stderr.strip()[-500:]}; let this host reach Debian's "
                "packages, and start again."
            )
        repository, _, version = BASE_IMAGE.partition(":")
        with trying(f"import {BASE_IMAGE}"):
            client.api.import_image(str(archive), repository=repository, tag=version)


def run_script(client: docker.DockerClient, run: Path, script: str, what: str, **how: Any) -> str:
    """Run a shell script in a short-lived container of a run's, to do ``what``; returns what it printed.

    Raises:
        HarnessError: it failed.
    """
    image = node_image(client)
    with trying(what):
        output = client.containers.run(
            image,
            ["sh", "-c", script],
            cap_drop=["ALL"],
            security_opt=NO_NEW_PRIVILEGES,
            labels={RUN_LABEL: str(run)},
            remove=True,
            # Of most other drivers, which a host may have as its default, docker-py returns nothing.
            log_config=docker.types.LogConfig(type="json-file"),
            **how,
        )
    return bytes(output).decode()
