import pytest

from sweet_rl.viewer.page import write_page
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.window import Window


@pytest.fixture(scope="session")
def window():
    window = Window()
    yield window
    window.close()


@pytest.fixture
def page(tmp_path):
    """Writes a page of files and gives its address."""

    def write(input_path: str, name: str = "page.html", **more) -> str:
        path = tmp_path / name
        path.write_text(write_page(open_collection(ViewSettings(input_path, **more)), progress=False), encoding="utf-8")
        return path.as_uri()

    return write
