"""The tree of paths answers as a search through all paths does."""

from __future__ import annotations

import os
import random

from kmini.storage.filesystem.path_tree import PathTree


def found_by_search(paths: list[str], path: str) -> list[str]:
    return [path] if path in paths else sorted(each for each in paths if each.startswith(os.path.join(path, "")))


def test_any_order_of_changes_finds_what_a_search_finds() -> None:
    chance = random.Random(4)
    places = ["", "/", "/a", "/a/b", "/a/b/c", "/a/bc", "a", "a/b"]
    candidates = [os.path.join(place, name) for place in places for name in ("x", "y")]
    tree: PathTree[int] = PathTree()
    known: dict[str, int] = {}
    for number in range(3_000):
        path = chance.choice(candidates)
        if chance.random() < 0.5:
            tree.put(path, number)
            known[path] = number
        else:
            assert tree.pop(path) == known.pop(path, None)
        looked_up = chance.choice(candidates)
        assert tree.get(looked_up) == known.get(looked_up)
        for place in filter(None, places):
            assert sorted(tree.at_or_below(place)) == found_by_search(list(known), place)


def test_a_tree_that_was_emptied_holds_nothing() -> None:
    tree: PathTree[int] = PathTree()
    for path in ("/a/b/x", "/a/b/y", "/a/x", "z"):
        tree.put(path, 1)
    for path in ("/a/x", "/a/b/y", "z", "/a/b/x"):
        tree.pop(path)
    assert not tree._values
    assert not tree._subdirectories
