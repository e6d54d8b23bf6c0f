"""A team that reads the files of a directory and answers a question about them."""

from .report import Exploration as Exploration
from .report import FileReport as FileReport
from .start import explore as explore
from .start import open_explorer as open_explorer
from .team import Explorer as Explorer
