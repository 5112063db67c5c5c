"""A simulated cloud for tests of unittest."""

import unittest
from typing import ClassVar

from localsim.testing.simulated_cloud import SimulatedCloud, cloud_of
from localsim.testing.simulator_options import SimulatorOptions


class CloudTestCase(unittest.TestCase):
    """Tests with a simulated cloud in `self.cloud`, which is empty when a test begins.

    All tests of a class share one simulator. A class that sets `cloud_options` has another one.
    """

    cloud_options: ClassVar[SimulatorOptions] = SimulatorOptions()
    cloud: ClassVar[SimulatedCloud]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the simulator; a class that overrides this calls it first."""
        super().setUpClass()
        cls.cloud = cls.enterClassContext(cloud_of(cls.cloud_options))

    def setUp(self) -> None:
        """Empty the cloud; a class that overrides this calls it first."""
        super().setUp()
        self.cloud.reset()
