"""Cycles in a directed graph: its strongly connected components, and a way round by an edge."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

Graph = Mapping[int, Collection[int]]
"""By node the nodes after it. Nodes are taken in ascending order: a graph gives the same cycles."""


def components(graph: Graph) -> Iterator[Collection[int]]:
    """Yield the strongly connected components of two nodes or more (Tarjan, without recursion)."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in sorted(graph):
        open_nodes = [] if root in number else [(root, iter([root]))]
        while open_nodes:
            node, after = open_nodes[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                stack.append(node)
                on_stack.add(node)
                after = iter(sorted(graph.get(node, ())))
                open_nodes[-1] = (node, after)
            following = next(after, None)
            if following is not None:
                if following not in number:
                    open_nodes.append((following, iter([])))
                elif following in on_stack:
                    lowest[node] = min(lowest[node], number[following])
                continue
            open_nodes.pop()
            if open_nodes:
                parent = open_nodes[-1][0]
                lowest[parent] = min(lowest[parent], lowest[node])
            if lowest[node] == number[node]:
                component = {stack.pop()}
                while node not in component:
                    component.add(stack.pop())
                on_stack -= component
                if len(component) > 1:
                    yield component


def cycle_through(graph: Graph, first: int, second: int) -> Sequence[int]:
    """Return a shortest cycle that begins with an edge of a component, its first node once.

    Raises:
        ValueError: No way leads back to the first node.
    """
    before = {second: first}
    waiting = deque([second])
    while waiting:
        node = waiting.popleft()
        for following in sorted(graph.get(node, ())):
            if following == first:
                way = [node]
                while way[-1] != first:
                    way.append(before[way[-1]])
                return way[::-1]
            if following not in before:
                before[following] = node
                waiting.append(following)
    raise ValueError(f"no way leads from {second} back to {first}")
