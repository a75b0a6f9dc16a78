"""What makes a page usable without a mouse and without good eyes: contrast, names, focus and motion, read from Chromium."""

from __future__ import annotations

# Text and controls whose contrast with what lies behind them is too low (WCAG 2.2: 1.4.3 and 1.4.11), as sentences.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ratio = (one, other) => {
    const [bright, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dark + 0.05);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = channels(getComputedStyle(one).backgroundColor);
      if (found[3] === 255) return found;
    }
    return channels(getComputedStyle(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#ffffff");
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || element.closest("script, style, noscript, [hidden], .hidden, .skip, .mark-text.role-mark") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const colour = channels(element instanceof SVGElement ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const contrast = ratio(colour, behind(element instanceof SVGElement ? element.ownerSVGElement.parentElement : element));
    if (contrast < least) found.push(`${contrast.toFixed(2)} of "${text.slice(0, 40)}"`);
  }
  for (const element of document.querySelectorAll("select, input:not([type='range']), button:not(.plain)")) {
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const contrast = ratio(channels(style.borderTopColor), behind(element.parentElement));
    if (contrast < 3) found.push(`${contrast.toFixed(2)} of the edge of ${element.id || element.textContent}`);
  }
  return found;
}"""

# What a keyboard should reach and did not, as the beginning of its text.
UNREACHED = """() => [...document.querySelectorAll("a[href], select, input, button, summary, [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !one.dataset.reached).map((one) => one.outerHTML.slice(0, 80))"""

# Where the focus is after a Tab, and whether it is seen. A busy browser is given time: the focus must have moved on, and an
# outline that a person would see a moment later is there. Nothing focused is the end only where it lasts.
FOCUSED = """async () => {
  const before = window.focusedBefore;
  for (let left = 40; ; left -= 1) {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    const outside = one === document.body;
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    if (left === 0 || (outside && left <= 30) || (!outside && one !== before && outlined)) {
      window.focusedBefore = one;
      if (outside) return null;
      one.dataset.reached = "yes";
      return { outlined, told: one.outerHTML.slice(0, 80) };
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}"""

MOVING = """() => [
  ...document.getAnimations().map(() => "an animation"),
  ...[...document.querySelectorAll("*")].filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0).map((one) => one.tagName),
]"""
_NAMED = {
    "button",
    "combobox",
    "image",
    "img",
    "link",
    "region",
    "slider",
    "spinbutton",
    "table",
    "textbox",
    "navigation",
}


def without_names(page):
    """Roles of what a screen reader stops at and cannot name."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    return [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored")
        and node["role"]["value"] in _NAMED
        and not node.get("name", {}).get("value", "").strip()
    ]


def by_keyboard(page, most=300):
    """Tab through a page once: what shows no outline, and what was not reached."""
    unseen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at is None:
            break
        if not at["outlined"]:
            unseen.append(at["told"])
    return unseen, page.evaluate(UNREACHED)
