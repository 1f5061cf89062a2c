"""Tokens of EKS, and the review of them."""

from __future__ import annotations

import base64
import datetime
from typing import Any
from unittest import mock

import botocore.session
from botocore.signers import RequestSigner

from .harness import ADMIN_KEY, DoubleTest

HOST = "https://sts.us-east-1.amazonaws.com"


def token(cluster: str, key: tuple[str, ...] = ADMIN_KEY, host: str = HOST, action: str = "GetCallerIdentity") -> str:
    """A token as the AWS CLI makes it."""
    session = botocore.session.Session()
    session.set_credentials(*key)
    signer = RequestSigner(
        session.get_service_model("sts").service_id, "us-east-1", "sts", "v4", session.get_credentials(),
        session.get_component("event_emitter"),
    )
    request = {
        "method": "GET",
        "url": f"{host}/?Action={action}&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name="us-east-1", expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class Tokens(DoubleTest):
    def review(self, text: str, cluster: str = "demo") -> dict[str, Any]:
        document = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
        answer = self.double.admin("POST", f"token-review/{cluster}", document)
        self.assertEqual((answer["apiVersion"], answer["kind"]), ("authentication.k8s.io/v1", "TokenReview"))
        return answer["status"]

    def test_the_creator_is_admin(self) -> None:
        self.cluster()
        status = self.review(token("demo"))
        self.assertTrue(status["authenticated"], status)
        self.assertEqual(status["user"]["username"], "arn:aws:iam::123456789012:user/admin")
        self.assertEqual(status["user"]["groups"], ["system:masters"])
        self.assertTrue(self.review(token("demo", host=self.double.url))["authenticated"])

    def test_a_session_of_a_role(self) -> None:
        self.cluster()
        role = self.role("dev", "ec2")
        credentials = self.double.client("sts").assume_role(RoleArn=role, RoleSessionName="alice")["Credentials"]
        key = (credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"])
        self.assertIn("no access entry", self.review(token("demo", key))["error"])
        self.eks.create_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["devs"])
        self.eks.associate_access_policy(
            clusterName="demo", principalArn=role, accessScope={"type": "cluster"},
            policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
        )
        user = self.review(token("demo", key))["user"]
        self.assertEqual(user["username"], "arn:aws:sts::123456789012:assumed-role/dev/alice")
        self.assertEqual(user["groups"], ["devs", "eks:access-policy:AmazonEKSViewPolicy"])
        self.assertIn("security token", self.review(token("demo", (*key[:2], "other")))["error"])

    def test_an_instance_is_a_node(self) -> None:
        self.cluster()
        self.nodegroup()
        instance = self.instances(eks_cluster_name="demo")[0]
        arn = "arn:aws:iam::123456789012:role/demo-workers-node"
        name = instance["InstanceId"]
        credentials = self.double.client("sts").assume_role(RoleArn=arn, RoleSessionName=name)["Credentials"]
        key = (credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"])
        user = self.review(token("demo", key))["user"]
        self.assertEqual(user["username"], f"system:node:{instance['PrivateDnsName']}")
        self.assertEqual(user["groups"], ["system:nodes"])

    def test_refusals(self) -> None:
        self.cluster()
        self.cluster("other")
        old = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=16)
        with mock.patch("botocore.auth.get_current_datetime", return_value=old.replace(tzinfo=None)):
            expired = token("demo")
        rows = [
            ("", "prefix"),
            ("k8s-aws-v1.%%%", "hostname"),
            (token("other"), "signature"),
            (token("demo", (ADMIN_KEY[0], "wrong")), "signature"),
            (token("demo", ("AKIDOTHER00000000000", "x")), "unknown"),
            (token("demo", host="https://sts.example.com"), "hostname"),
            (token("demo", action="GetSessionToken"), "action"),
            (expired, "expired"),
        ]
        for text, problem in rows:
            with self.subTest(problem=problem):
                status = self.review(text)
                self.assertFalse(status["authenticated"])
                self.assertIn(problem, status["error"])

    def test_a_cluster_by_config_map_knows_nobody(self) -> None:
        self.cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
        self.assertFalse(self.review(token("demo"))["authenticated"])

    def test_endpoint_and_ca_can_be_set(self) -> None:
        self.cluster()
        pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
        self.double.admin("POST", "clusters/demo", {"endpoint": "https://127.0.0.1:6443", "ca": pem})
        cluster = self.eks.describe_cluster(name="demo")["cluster"]
        self.assertEqual(cluster["endpoint"], "https://127.0.0.1:6443")
        self.assertEqual(base64.b64decode(cluster["certificateAuthority"]["data"]).decode(), pem)

    def test_a_presigned_request_is_answered(self) -> None:
        import urllib.request

        url = base64.urlsafe_b64decode(token("demo", host=self.double.url).split(".")[1] + "==").decode()
        with urllib.request.urlopen(url, timeout=10) as answer:
            self.assertIn("user/admin", answer.read().decode())
