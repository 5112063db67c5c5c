"""The colours of the pages, light and dark; a test computes their contrast by WCAG 2.2.

Text has at least 4.5:1 on every background, what is drawn at least 3:1 on the background of pages.
"""

BACKGROUNDS = {
    "page": ("#ffffff", "#14171c"),
    "raised": ("#f2f4f7", "#1e232b"),
}
"""Name -> its colour where the browser prefers light, and dark."""
TEXTS = {
    "text": ("#16191d", "#e8eaed"),
    "muted": ("#545b66", "#a7b0bd"),
    "link": ("#0b57b0", "#8ab8ff"),
    "good": ("#166534", "#7fd69a"),
    "warn": ("#8a4b00", "#f0b35a"),
    "bad": ("#b3161e", "#ff9a94"),
}
DRAWN = {
    "line": ("#767f8c", "#7d8694"),
    "training": ("#1a7f4b", "#3fbf7a"),
    "saving": ("#a2278f", "#e06cc8"),
    "compiling": ("#6f42c1", "#a98bf0"),
    "preparing": ("#2a6fdb", "#6aa5ff"),
    "provisioning": ("#0e7c86", "#3bbac4"),
    "waiting": ("#767f8c", "#7d8694"),
    "recovering": ("#b35900", "#e8963c"),
    "lost": ("#c8232c", "#f0625d"),
    "idle": ("#8a6d3b", "#b8975c"),
    "series-0": ("#1f6feb", "#58a6ff"),
    "series-1": ("#b35900", "#f0883e"),
    "series-2": ("#1a7f4b", "#3fb950"),
    "series-3": ("#a2278f", "#e06cc8"),
    "series-4": ("#0e7c86", "#39c5cf"),
    "series-5": ("#8a6d00", "#d4a72c"),
    "series-6": ("#6f42c1", "#a98bf0"),
    "series-7": ("#c8232c", "#ff7b72"),
}
"""The parts of a job's time have the names of TimePart."""
HEAT = {
    "heat-0": ("#eaf2fd", "#1c2a3f"),
    "heat-1": ("#bfdbfa", "#1f4273"),
    "heat-2": ("#86bbf5", "#2a62ad"),
    "heat-3": ("#1f62c4", "#7fb2f7"),
    "heat-4": ("#0b3573", "#c5defc"),
}
"""Chips from idle to busy; the number in the square says the same."""
HEAT_TEXTS = {
    "heat-text-0": ("#16191d", "#e8eaed"),
    "heat-text-1": ("#16191d", "#ffffff"),
    "heat-text-2": ("#16191d", "#ffffff"),
    "heat-text-3": ("#ffffff", "#10141a"),
    "heat-text-4": ("#ffffff", "#10141a"),
}
HEAT_LEVELS = len(HEAT)
COLORS = {**BACKGROUNDS, **TEXTS, **DRAWN, **HEAT, **HEAT_TEXTS}


def stylesheet() -> str:
    """The colours as custom properties, by what the browser prefers; paper is light."""
    light, dark = (
        "".join(f"--{name}:{pair[theme]};" for name, pair in COLORS.items()) for theme in (0, 1)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
