"""Runs axe-core on a page, and walks through the page with the Tab key."""
import os

import axe_core_python

AXE = os.path.join(os.path.dirname(axe_core_python.__file__), "axe.min.js")


def violations(browser):
    """Returns a line for each violation of WCAG 2 A or AA, or of axe's best practices, on the page in its present
    theme. First waits until the colours of a change of theme have settled."""
    browser.until("no transition runs", lambda: browser.run("return document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)"))
    with open(AXE, encoding="utf-8") as f:
        browser.run(f.read())
    found = browser.run("return axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => "
                        "v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).join('; ')))")
    assert browser.run("return axe.version") >= "4", "no axe"
    return found


def sticking_out(browser):
    """Returns the elements that reach beyond the sides of the screen. Leaves out hidden elements, table heads, drawings, and what is
    inside elements that scroll by themselves."""
    return browser.run("""
        return [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, .unseen, thead, svg") && e.getClientRects().length > 0)
          .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
          .map((e) => e.tagName + "#" + e.id + "." + e.className)""")


def tab_stops(browser, most=200):
    """Returns the labels of the elements that get the focus by the Tab key, in order. Begins at the top of the page, and stops when the
    first element gets the focus again."""
    browser.run("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); window.scrollTo(0, 0)")
    stops = []
    for _ in range(most):
        browser.press("Tab")
        if browser.run("return document.activeElement === document.body"):
            return stops
        assert browser.run("return document.activeElement.matches(':focus-visible')"), f"no focus is seen on {browser.focused()}"
        stops.append(browser.focused())
        if len(stops) > 1 and browser.run("return document.activeElement === window.firstStop"):
            return stops[:-1]
        browser.run("window.firstStop ??= document.activeElement")
    raise AssertionError(f"the focus does not come round: {stops}")
