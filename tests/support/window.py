"""A real browser on a page: what it shows, what its console says, what it asks the network for."""

from __future__ import annotations

import json
import shutil

import pytest


class Window:
    """One browser window, reused for many pages."""

    def __init__(self) -> None:
        webdriver = pytest.importorskip("selenium.webdriver", reason="pip install -e '.[frontend]'")
        program = next((p for p in ("chromium", "chromium-browser", "google-chrome") if shutil.which(p)), None)
        if program is None or shutil.which("chromedriver") is None:
            pytest.skip("no Chromium with its driver: apt-get install chromium chromium-driver")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which(program)
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(300)  # of a loaded machine

    def open(self, address: str) -> None:
        """A fresh page, loaded whole."""
        self.driver.get("about:blank")
        self.logs()
        self.driver.get(address)

    def run(self, script: str, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def all(self, selector: str) -> list:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("[...document.querySelectorAll(arguments[0])].map(n => n.textContent)", selector)

    def logs(self) -> tuple[list[str], list[str]]:
        """Since the last call: complaints of the console, and addresses that were asked for."""
        complaints = [entry["message"] for entry in self.driver.get_log("browser")]
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return complaints, asked

    def close(self) -> None:
        self.driver.quit()
