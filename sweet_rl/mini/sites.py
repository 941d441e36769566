"""The small websites that mini pages are about: what is the same on all pages of a site, and what can differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """One site: how a client calls it, its name in the header, its possible headings, its button and its boxes."""

    wish: str
    name: str
    headings: tuple[str, ...]
    button: str
    boxes: tuple[str, str, str]


SITES: tuple[Site, ...] = (
    Site("a bakery", "Sunny Bakery", ("Fresh bread every day", "Cakes for your party", "We open at six"),
         "Order now", ("Bread", "Cakes", "Pies")),
    Site("a school", "Hill School", ("Learning is fun", "Our summer party", "Meet the teachers"),
         "Sign up", ("Classes", "Teachers", "Trips")),
    Site("a hotel", "Lake Hotel", ("Rest by the water", "Rooms with a view", "Stay three nights"),
         "Book a room", ("Rooms", "Food", "Spa")),
    Site("a music band", "The Foxes", ("Our new album", "On tour this year", "Songs from the woods"),
         "Listen", ("Songs", "Dates", "Shop")),
    Site("a bicycle shop", "Fast Wheels", ("Bikes for everyone", "Repairs in one day", "Ride to work"),
         "See bikes", ("Bikes", "Repairs", "Helmets")),
    Site("a dentist", "Doctor Green", ("A healthy smile", "No more fear", "Care for children"),
         "Call us", ("Team", "Prices", "Hours")),
    Site("a travel agency", "Blue Sky Tours", ("Find your island", "Flights and more", "Winter in the sun"),
         "Search", ("Beaches", "Cities", "Islands")),
    Site("a flower shop", "Rose Corner", ("Flowers for her", "Roses in winter", "We deliver today"),
         "Send flowers", ("Roses", "Tulips", "Plants")),
    Site("a gym", "Iron House", ("Get strong with us", "Train at any hour", "The first week is free"),
         "Join", ("Weights", "Yoga", "Coaches")),
    Site("a museum", "City Museum", ("Art from ten lands", "The gold of the kings", "A day with dinosaurs"),
         "Buy tickets", ("Art", "History", "Nature")),
)  # fmt: skip
BY_NAME = {site.name: site for site in SITES}

STRONG = ("navy", "teal", "green", "crimson", "purple", "darkorange", "black")
"""Backgrounds of headers, buttons and footers, under white text."""
PALE = ("white", "cornsilk", "lightgray", "lightblue", "pink")
"""Backgrounds of whole pages."""
BOXES = ("gold", "plum", "lightgreen", "sandybrown", "gray")
"""Backgrounds of the boxes."""
IMAGES = ("none", "left", "right", "top")
