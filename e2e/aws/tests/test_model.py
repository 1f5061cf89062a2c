"""Answers are checked against botocore's model."""

from __future__ import annotations

import unittest

from capt_aws_double.eks import model
from capt_aws_double.eks.errors import EksError
from capt_aws_double.eks.service import OPERATIONS
from capt_aws_double.request import match_route, service_model


class Model(unittest.TestCase):
    def test_operations_are_those_of_eks(self) -> None:
        self.assertLessEqual(set(OPERATIONS), set(service_model("eks").operation_names))

    def test_paths_lead_to_their_operations(self) -> None:
        arn = "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fdev"
        rows = [
            ("GET", "/clusters/demo", "DescribeCluster"),
            ("POST", "/clusters/demo/updates", "UpdateClusterVersion"),
            ("GET", "/clusters/demo/updates/1", "DescribeUpdate"),
            ("GET", "/addons/supported-versions", "DescribeAddonVersions"),
            ("DELETE", f"/clusters/demo/access-entries/{arn}", "DeleteAccessEntry"),
            ("POST", "/clusters/demo/identity-provider-configs/describe", "DescribeIdentityProviderConfig"),
            ("GET", "/tags/arn:aws:eks:us-east-1:123456789012:cluster/demo", "ListTagsForResource"),
        ]
        for method, path, wanted in rows:
            with self.subTest(path):
                found = match_route("eks", method, path)
                self.assertEqual(found and found[0], wanted)
        labels = match_route("eks", "GET", f"/clusters/demo/access-entries/{arn}")[1]
        self.assertEqual(labels, {"name": "demo", "principalArn": "arn:aws:iam::123456789012:role/dev"})

    def test_an_unknown_member_is_a_mistake(self) -> None:
        with self.assertRaises(EksError):
            model.written("DescribeCluster", {"cluster": {"nam": "demo"}})
        answer = {"cluster": {"name": "demo", "version": None}}
        self.assertEqual(model.written("DescribeCluster", answer), {"cluster": {"name": "demo"}})
