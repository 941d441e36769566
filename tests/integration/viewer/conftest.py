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
def quiet(window):
    """After the test: no complaint in the console, and nothing asked for but the file itself and its pictures."""
    yield
    complaints, asked = window.logs()
    assert complaints == []
    assert [address[:60] for address in asked if not address.startswith(("file:", "data:", "blob:", "about:"))] == []


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """Writes a page of files and gives its address."""

    def write(input_path, **more) -> str:
        path = tmp_path_factory.mktemp("page") / "page.html"
        collection = open_collection(ViewSettings(str(input_path), **more))
        path.write_text(write_page(collection), encoding="utf-8")
        return path.as_uri()

    return write
