"""Faults, the record of calls, eventual consistency."""

from __future__ import annotations

import botocore.exceptions

from .harness import DoubleTest


class Faults(DoubleTest):
    def set(self, **rule: object) -> None:
        self.double.admin("PUT", "faults", [rule])

    def test_each_service_has_its_errors(self) -> None:
        clusters, vpcs, users = self.eks.list_clusters, self.ec2.describe_vpcs, self.iam.list_users
        rows = [
            ("throttling", clusters, "ThrottlingException"),
            ("throttling", vpcs, "RequestLimitExceeded"),
            ("throttling", users, "Throttling"),
            ("5xx", clusters, "ServerException"),
            ("5xx", vpcs, "InternalError"),
            ("expired-token", clusters, "ExpiredTokenException"),
            ("expired-token", vpcs, "RequestExpired"),
            ("expired-token", users, "ExpiredToken"),
            ("quota", clusters, "ResourceLimitExceededException"),
            ("quota", users, "LimitExceeded"),
        ]
        for kind, call, code in rows:
            with self.subTest(kind=kind, code=code):
                self.set(kind=kind)
                self.refuses(code, "", call)
        self.set(kind="quota", action="CreateVpc")
        self.refuses("VpcLimitExceeded", "", self.ec2.create_vpc, CidrBlock="10.0.0.0/16")
        self.set(kind="capacity", action="RunInstances")
        self.refuses("InsufficientInstanceCapacity", "t3.micro", self.ec2.run_instances, ImageId="ami-12345678",
                     MinCount=1, MaxCount=1, InstanceType="t3.micro")
        self.double.admin("DELETE", "faults")
        self.ec2.describe_vpcs()

    def test_count_skip_and_patterns(self) -> None:
        self.set(kind="5xx", service="e?2", action="Describe*", skip=1, count=1)
        self.ec2.describe_vpcs()
        self.iam.list_users()
        self.refuses("InternalError", "", self.ec2.describe_subnets)
        self.ec2.describe_vpcs()
        self.assertEqual(self.double.admin("GET", "faults")[0]["hits"], 1)

    def test_luck_is_the_same_each_time(self) -> None:
        def outcomes() -> list[bool]:
            self.set(kind="throttling", service="eks", probability=0.5, seed=7)
            found = []
            for _ in range(12):
                try:
                    self.eks.list_clusters()
                    found.append(True)
                except self.eks.exceptions.ClientError:
                    found.append(False)
            return found

        first = outcomes()
        self.assertEqual(first, outcomes())
        self.assertEqual(len(set(first)), 2)

    def test_reset_before_and_after(self) -> None:
        lost = (botocore.exceptions.ConnectionClosedError, botocore.exceptions.EndpointConnectionError)
        self.set(kind="reset", action="CreateVpc")
        with self.assertRaises(lost):
            self.ec2.create_vpc(CidrBlock="10.0.0.0/16")
        self.assertEqual(self.double.admin("GET", "resources"), [])
        self.set(kind="reset", action="CreateVpc", when="after")
        with self.assertRaises(lost):
            self.ec2.create_vpc(CidrBlock="10.0.0.0/16")
        self.assertEqual([entry["kind"] for entry in self.double.admin("GET", "resources")], ["vpc"])

    def test_rules_are_checked(self) -> None:
        for rule in ({"kind": "no"}, {"action": "x"}, {"kind": "slow", "more": 1}):
            with self.assertRaises(AssertionError):
                self.set(**rule)


class Calls(DoubleTest):
    def test_calls_are_recorded(self) -> None:
        self.double.admin("DELETE", "calls")
        self.cluster(tags={"a": "b"})
        self.refuses("ResourceNotFoundException", "", self.eks.describe_cluster, name="no")
        calls = self.double.admin("GET", "calls")
        by_action = {call["action"]: call for call in calls}
        self.assertEqual(by_action["CreateCluster"]["principal"], "arn:aws:iam::123456789012:user/admin")
        self.assertEqual(by_action["CreateCluster"]["also"], ["iam:PassRole", "eks:TagResource"])
        self.assertEqual(by_action["DescribeCluster"]["error"], "ResourceNotFoundException")
        permissions = self.double.admin("GET", "permissions")
        for wanted in ("eks:CreateCluster", "iam:CreateRole", "iam:PassRole", "ec2:DescribeSubnets"):
            self.assertIn(wanted, permissions)


class Consistency(DoubleTest):
    def test_what_was_just_created_is_not_found(self) -> None:
        self.double.admin("PUT", "consistency", {"reads": 2})
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for _ in range(2):
            self.refuses("InvalidVpcID.NotFound", "does not exist", self.ec2.describe_vpcs, VpcIds=[vpc])
        self.ec2.describe_vpcs(VpcIds=[vpc])
        self.double.admin("PUT", "consistency", {"reads": 1, "actions": ["eks:*"]})
        self.cluster()
        self.refuses("ResourceNotFoundException", "", self.eks.describe_cluster, name="demo")
        self.eks.describe_cluster(name="demo")

    def test_a_role_is_seen_by_eks_later(self) -> None:
        role = self.role("late")
        self.double.admin("PUT", "consistency", {"reads": 1, "actions": ["iam:PassRole"]})
        other = self.role("later")
        params = {"name": "demo", "resourcesVpcConfig": {"subnetIds": self.subnets()}}
        self.refuses("InvalidParameterException", "does not exist", self.eks.create_cluster, roleArn=other, **params)
        self.eks.create_cluster(roleArn=role, **params)

    def test_by_time(self) -> None:
        self.double.admin("PUT", "consistency", {"milliseconds": 60000})
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.refuses("InvalidVpcID.NotFound", "does not exist", self.ec2.describe_vpcs, VpcIds=[vpc])
        self.double.admin("DELETE", "consistency")
        self.ec2.describe_vpcs(VpcIds=[vpc])
