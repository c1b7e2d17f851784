"""Data and configuration directories of each platform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tenuto import settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("TENUTO_HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))


@pytest.mark.parametrize(
    ("platform", "environment", "directory"),
    [
        ("linux", {}, "/home/ada/.local/share/tenuto"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/tenuto"),
        ("linux", {"XDG_DATA_HOME": "relative is not taken"}, "/home/ada/.local/share/tenuto"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "/home/ada/Library/Application Support/tenuto"),
        ("win32", {}, "/home/ada/AppData/Local/tenuto"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/tenuto"),
        ("linux", {"TENUTO_HOME": " /mine "}, "/mine"),
        ("win32", {"TENUTO_HOME": "/mine", "LOCALAPPDATA": "/local"}, "/mine"),
    ],
)
def test_data_directory_by_platform(monkeypatch, platform, environment, directory):
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert settings.home() == Path(directory)


def test_tilde_is_expanded(monkeypatch):
    monkeypatch.setenv("TENUTO_HOME", "~/tenuto")
    monkeypatch.setenv("HOME", "/home/ada")

    assert settings.home() == Path("/home/ada/tenuto")


@pytest.mark.parametrize(
    ("platform", "environment", "directory"),
    [
        ("linux", {"XDG_DATA_HOME": "/data"}, "/home/ada/.config/tenuto"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/tenuto"),
        ("linux", {"XDG_CONFIG_HOME": "relative is not taken"}, "/home/ada/.config/tenuto"),
        ("darwin", {"XDG_CONFIG_HOME": "/etc/ada"}, "/home/ada/Library/Application Support/tenuto"),
        ("win32", {}, "/home/ada/AppData/Roaming/tenuto"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/tenuto"),
        ("linux", {"TENUTO_HOME": "/mine", "XDG_CONFIG_HOME": "/etc/ada"}, "/mine"),
        ("win32", {"TENUTO_HOME": "/mine", "APPDATA": "/roaming"}, "/mine"),
    ],
)
def test_config_directory_by_platform(monkeypatch, platform, environment, directory):
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert settings.config_home() == Path(directory)
