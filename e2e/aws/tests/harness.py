"""A running double for tests, and short ways to make what many tests need."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import boto3
from botocore.config import Config

HERE = Path(__file__).resolve().parent.parent
ADMIN_KEY = ("AKIDADMIN00000000000", "admin-secret")


class Running:
    """The process of a double."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "capt_aws_double", "--user", f"admin:{':'.join(ADMIN_KEY)}", *options]
        self._process = subprocess.Popen(
            command, cwd=HERE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the double did not start: {line!r}")
        self.url = line.split()[-1]

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Asks one of its own endpoints."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_double/{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    @lru_cache(maxsize=None)  # noqa: B019 - it lives as long as the tests
    def client(self, service: str, region: str = "us-east-1", key: tuple[str, str] = ADMIN_KEY) -> Any:
        """A client that tries each call once."""
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id=key[0],
            aws_secret_access_key=key[1],
            config=Config(retries={"total_max_attempts": 1}),
        )


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


@lru_cache(maxsize=None)
def shared() -> Running:
    """The double of all tests: to start one takes seconds."""
    running = Running()
    atexit.register(running.stop)
    return running


class DoubleTest(unittest.TestCase):
    """A double that is reset before each test."""

    double: ClassVar[Running]

    @classmethod
    def setUpClass(cls) -> None:
        cls.double = shared()

    def setUp(self) -> None:
        self.double.admin("POST", "reset")
        self.eks = self.double.client("eks")
        self.ec2 = self.double.client("ec2")
        self.iam = self.double.client("iam")

    def refuses(self, code: str, message: str, call: Any, **params: Any) -> None:
        """Asserts that a call fails with an error."""
        with self.assertRaises(self.eks.exceptions.ClientError) as caught:
            call(**params)
        error = caught.exception.response["Error"]
        self.assertEqual(error["Code"], code, error)
        self.assertIn(message, error["Message"])

    def role(self, name: str, service: str = "eks", iam: Any = None) -> str:
        """Makes a role for a service."""
        iam = iam or self.iam
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": f"{service}.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        policy = f"arn:{arn.split(':')[1]}:iam::aws:policy/AmazonEKSClusterPolicy"
        iam.attach_role_policy(RoleName=name, PolicyArn=policy)
        return arn

    def subnets(self, ec2: Any = None) -> list[str]:
        """Two subnets of the default VPC, in two zones that EKS takes."""
        found = (ec2 or self.ec2).describe_subnets()["Subnets"]
        return [subnet["SubnetId"] for subnet in found if subnet["AvailabilityZoneId"] != "use1-az3"][:2]

    def cluster(self, name: str = "demo", **more: Any) -> dict[str, Any]:
        """Makes a cluster; without durations it is ACTIVE with the next call."""
        params = {
            "name": name,
            "version": "1.33",
            "roleArn": self.role(f"{name}-control-plane"),
            "resourcesVpcConfig": {"subnetIds": self.subnets()},
            "accessConfig": {"authenticationMode": "API"},
            **more,
        }
        return self.eks.create_cluster(**params)["cluster"]

    def nodegroup(self, cluster: str = "demo", name: str = "workers", **more: Any) -> dict[str, Any]:
        """Makes a node group."""
        params = {
            "clusterName": cluster,
            "nodegroupName": name,
            "nodeRole": self.role(f"{cluster}-{name}-node", "ec2"),
            "subnets": self.subnets(),
            "scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 2},
            **more,
        }
        return self.eks.create_nodegroup(**params)["nodegroup"]

    def instances(self, **tags: str) -> list[dict[str, Any]]:
        """Running instances with tags; `_` stands for what a name cannot have."""
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        filters += [{"Name": f"tag:{key.replace('_', ':', 1).replace('_', '-')}", "Values": [value]}
                    for key, value in tags.items()]
        pages = self.ec2.describe_instances(Filters=filters)["Reservations"]
        return [instance for page in pages for instance in page["Instances"]]
