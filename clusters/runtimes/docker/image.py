"""Build the image of all nodes, and run scripts in it."""

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
NO_NEW_PRIVILEGES = ["no-new-privileges:true"]  # set-uid programs have no effect
DOCKERFILE = Path(__file__).with_name("node") / "Dockerfile"


def fetch_what_nodes_need(java: Java) -> None:
    """Build the node image and fetch client libraries if missing, so that starts do not wait.

    Raises:
        BadInput: the servers' Java does not run in the image.
        HarnessError: one of them is not available.
    """
    with connected(timeout_s=600) as client:
        _check_java(client, java)
        client_libraries()


def _check_java(client: docker.DockerClient, java: Java) -> None:
    """Run a Java in the image, once: one for newer system libraries would end every server.

    A file in ``.cache/java-in-image`` records the success.
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
    """Return the node image's tag, which changes with the Dockerfile; build the image if missing.

    Raises:
        HarnessError: neither a registry nor mmdebstrap provided the base image, or the build failed.
    """
    tag = f"plimsoll-node:{hashlib.sha256(DOCKERFILE.read_bytes()).hexdigest()[:12]}"
    if has_image(client, tag):
        return tag
    with locked(CACHE / ".image.lock"):
        if not has_image(client, tag):
            log.info("building the node image, once (about 15 s, or 2 min where no image registry answers)")
            _base_image(client)
            with trying(f"build the node image from {DOCKERFILE}"):
                # Some hosts do not route the build's default bridge.
                client.images.build(path=str(DOCKERFILE.parent), tag=tag, network_mode="host", rm=True, forcerm=True)
    return tag


def has_image(client: docker.DockerClient, reference: str) -> bool:
    """Return whether the daemon has an image, without a registry query."""
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
    """Run a shell script in a short-lived container; return its output.

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
            # docker-py returns no output of most other drivers.
            log_config=docker.types.LogConfig(type="json-file"),
            **how,
        )
    return bytes(output).decode()
