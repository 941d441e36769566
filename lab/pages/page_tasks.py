"""Mini page tasks: a vague wish for a small website, and the page that the client has in mind."""

from __future__ import annotations

import random

from lab.pages.pages import BOXES, IMAGES, PALE, SITES, STRONG, Page, Site

REQUESTS = (
    "I need a page for {wish}: {name}.",
    "Please make a website for {wish} called {name}.",
    "Can you design the page of {name}, {wish}?",
    "We want a small site for {wish}. The name is {name}.",
)
WISHES = (" It should have {parts}.", " There is {parts} on it.", " I think of {parts}.")
MENTIONED = 0.5
"""Probability that a client mentions the picture, the boxes or the footer of their page."""


def draw_page(site: Site, rng: random.Random) -> Page:
    """Draw a page of a site, every choice as likely as the others."""
    return Page(
        site=site.name,
        background=rng.choice(PALE),
        header=rng.choice(STRONG),
        image=rng.choice(IMAGES),
        heading=rng.choice(site.headings),
        button=rng.choice(("none", *STRONG)),
        boxes=rng.choice((0, 2, 3)),
        box_color=rng.choice(BOXES),
        footer=rng.choice(("none", *STRONG)),
    ).settled()


def mentioned_parts(page: Page, rng: random.Random) -> list[str]:
    """Draw which of a page's optional parts the client mentions: `image`, `boxes`, `footer`."""
    there = {"image": page.image != "none", "boxes": page.boxes > 0, "footer": page.footer != "none"}
    return [part for part, is_there in there.items() if is_there and rng.random() < MENTIONED]


PART_WORDS = {"image": "a picture", "boxes": "some boxes", "footer": "a footer"}


def describe(site: Site, parts: list[str], rng: random.Random) -> str:
    """Return the first message of the client."""
    words = rng.choice(REQUESTS).format(wish=site.wish, name=site.name)
    if parts:
        words += rng.choice(WISHES).format(parts=" and ".join(PART_WORDS[part] for part in parts))
    return words


def make_page_tasks(num_tasks: int, seed: int, exclude: set[str] | None = None) -> list[dict]:
    """Return `num_tasks` task records with distinct reference pages, none of them in `exclude` (pages' HTML)."""
    rng = random.Random(f"mini pages {seed}")
    seen = set(exclude or ())
    tasks: list[dict] = []
    while len(tasks) < num_tasks:
        site = rng.choice(SITES)
        page = draw_page(site, rng)
        html = page.html()
        if html not in seen:
            seen.add(html)
            words = describe(site, mentioned_parts(page, rng), rng)
            tasks.append({"problem_description": words, "ground_truth": html, "test_cases": {}})
    return tasks
