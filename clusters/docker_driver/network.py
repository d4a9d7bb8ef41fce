"""One bridge network for each cluster, with addresses that are known before anything starts."""

from __future__ import annotations

import ipaddress
import itertools
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kchaos.clusters.docker_driver.engine import speaking
from kchaos.clusters.errors import MachineError

if TYPE_CHECKING:
    from docker import APIClient

# Private networks, those first that engines do not use by themselves.
_POOLS = tuple(
    ipaddress.IPv4Network(pool) for pool in ("10.192.0.0/10", "172.24.0.0/13", "192.168.128.0/17")
)
_SUBNET_ADDRESSES = 256
_TRIES = 40
_random = random.SystemRandom()


def create_network(api: APIClient, name: str, labels: Mapping[str, str]) -> ipaddress.IPv4Network:
    """Make a bridge network with a subnet of our choice, and return that.

    Only in a network with a chosen subnet can a container be given an address of its own, and
    get it back after it was disconnected. Raises MachineError when no subnet is free.
    """
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    said = ""
    for subnet in _candidates(_routed()):
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        with speaking(f"the network {name} cannot be made"):
            try:
                api.create_network(
                    name,
                    driver="bridge",
                    check_duplicate=True,
                    labels=dict(labels),
                    ipam=IPAMConfig(pool_configs=[pool]),
                )
            except APIError as error:
                said = str(error.explanation)
                if "overlap" in said.lower():
                    continue
                raise
        return subnet
    pools = ", ".join(map(str, _POOLS))
    raise MachineError(
        f"no subnet of {pools} is free for a network{f': {said}' if said else ''}; see ip route. "
        "Remove networks that are no longer used (docker network prune), or run kchaos gc"
    )


def _candidates(taken: Sequence[ipaddress.IPv4Network]) -> Iterator[ipaddress.IPv4Network]:
    """Yield some subnets of each pool in random order, without those that are routed elsewhere."""
    for pool in _POOLS:
        yield from itertools.islice(_free(pool, taken), _TRIES)


def _free(
    pool: ipaddress.IPv4Network, taken: Sequence[ipaddress.IPv4Network]
) -> Iterator[ipaddress.IPv4Network]:
    count = pool.num_addresses // _SUBNET_ADDRESSES
    for index in _random.sample(range(count), count):
        start = pool.network_address + index * _SUBNET_ADDRESSES
        subnet = ipaddress.IPv4Network(f"{start}/24")
        if not any(subnet.overlaps(other) for other in taken):
            yield subnet


def why_unbindable(host: str) -> str:
    """Return why this process cannot listen on the address, and what to do; empty if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            return (
                f"the network's gateway {host} is no address of this machine ({error.strerror}), "
                "as with a rootless, desktop or remote engine. Use an engine that runs on this "
                "machine as root, or the local driver"
            )
    return ""


def _routed() -> list[ipaddress.IPv4Network]:
    """Return the networks that this machine has routes to, the default route aside."""
    networks = []
    for line in Path("/proc/net/route").read_text(encoding="ascii").splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        address = ipaddress.IPv4Address(bytes.fromhex(destination)[::-1])
        netmask = ipaddress.IPv4Address(bytes.fromhex(mask)[::-1])
        if int(netmask):
            networks.append(ipaddress.IPv4Network(f"{address}/{netmask}", strict=False))
    return networks
