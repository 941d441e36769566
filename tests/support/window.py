"""A real browser on a page: what it shows, what is typed, what its console says, what it asks the network for."""

from __future__ import annotations

import json
import shutil
import time

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
        self.size(1400, 900)

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def theme(self, name: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, address: str) -> None:
        """A fresh page, shown when the first entry is."""
        self.driver.get("about:blank")
        self.logs()
        self.driver.get(address)
        self.wait("document.documentElement.dataset.shown")

    def run(self, script: str, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, condition: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"never came true: {condition}; {self.run('document.body.innerText')[:600]}"
            time.sleep(0.02)

    def keys(self, text: str) -> None:
        """Types into what has the focus, with real key events."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(text).perform()

    def all(self, selector: str) -> list:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("[...document.querySelectorAll(arguments[0])].map(n => n.textContent)", selector)

    def click(self, selector: str) -> None:
        self.one(selector).click()

    def set(self, name: str, value: str) -> None:
        """Gives the field with this id a value, as a person's choice would."""
        script = """const field = document.getElementById(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));"""
        self.driver.execute_script(script, name, value)

    def hover(self, element) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).move_to_element(element).perform()

    def shown(self, number: int) -> None:
        """Waits until entry `number` is on the page."""
        self.wait(f"document.documentElement.dataset.shown === '{number}'")

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
