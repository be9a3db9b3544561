"""Make the pictures of reports and of an agent in the README: python docs/images/report.py

Trains the nine short runs of report-overview.png and the agent of `envgen demo`, in out/report-pictures; this takes a
few minutes. Needs Playwright and Chromium, as the tests of reports do.
"""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import envgen
from envgen.report.clips import play_episodes
from envgen.report.page import write_report
from envgen.worlds.crafter.world import Crafter

IMAGES = Path(__file__).parent
PUBLISHED = IMAGES.parent / "results" / "envgen-crafter-symbols" / "runs" / "llm-rich-100"
OUT = Path("out/report-pictures")
PLAN = {"cycles": 3, "cycle_steps": 80_000, "final_steps": 80_000, "feedback_groups": 4, "feedback_episodes": 8,
        "episodes": 64, "audit_steps": 200}  # fmt: skip
OVERVIEW = "window.scrollTo({top: 80, behavior: 'instant'})"
LEVELS = """
    document.documentElement.style.scrollBehavior = 'auto';
    const run = document.querySelector('details.run');
    run.open = true;
    run.querySelectorAll('.cycle')[1].scrollIntoView();
"""
GIF_SIZE, GIF_FRAMES, GIF_MILLISECONDS = 189, 110, 100


def train_short_runs() -> Path:
    """Three designers with three seeds each. Finished runs are not repeated."""
    folder = OUT / "runs"
    for seed in range(3):
        for designer in ("none", "expert", "random"):
            run = folder / f"{designer}-{seed}"
            envgen.train("crafter", designer, preset="quick", plan=PLAN, seed=seed, folder=run, verbose=False)
    return folder


def save_screenshot(browser: Browser, runs: Path, scheme: str, script: str, image_file: Path) -> None:
    """A picture of the report of some runs, after `script` has run in the page."""
    report = write_report([runs], OUT / f"{image_file.stem}.html", clips=False)
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report.resolve().as_uri())
    page.wait_for_timeout(3000)
    page.evaluate(script)
    page.wait_for_timeout(3000)  # charts and pictures are drawn when they come into view
    page.screenshot(path=image_file)
    context.close()
    Image.open(image_file).convert("RGB").quantize(128).save(image_file, optimize=True)


def save_gif(file: Path) -> None:
    """The best of 48 episodes of the agent that `envgen demo` trains."""
    world = Crafter()
    policy = envgen.train("crafter", "expert", preset="quick", folder=OUT / "demo", verbose=False).policy()
    best = max(play_episodes(policy, world, "symbols"), key=lambda episode: episode.episode_return)
    frames = []
    with closing(world.single(None, best.seed, render_mode="rgb_array", render_size=GIF_SIZE)) as env:
        env.reset()
        for action in best.actions[:GIF_FRAMES]:
            image = Image.fromarray(np.asarray(env.render()))
            frames.append(image.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE))
            env.step(action)
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=GIF_MILLISECONDS, loop=0, optimize=True)
    print(f"{file}: {best.episode_return:.1f}, {best.first_success}")


def main() -> None:
    save_gif(IMAGES / "agent.gif")
    runs = train_short_runs()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        save_screenshot(browser, runs, "light", OVERVIEW, IMAGES / "report-overview.png")
        save_screenshot(browser, PUBLISHED, "dark", LEVELS, IMAGES / "report-levels.png")
        browser.close()


if __name__ == "__main__":
    main()
