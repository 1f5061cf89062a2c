"""EKS through boto3."""

from __future__ import annotations

import base64
import ssl

from .harness import DoubleTest

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class Clusters(DoubleTest):
    def test_life(self) -> None:
        made = self.cluster(upgradePolicy={"supportType": "STANDARD"}, tags={"a": "b"})
        self.assertEqual(made["status"], "CREATING")
        self.assertNotIn("endpoint", made)
        cluster = self.eks.describe_cluster(name="demo")["cluster"]
        self.assertEqual(cluster["status"], "ACTIVE")
        self.assertEqual(cluster["accessConfig"], {"authenticationMode": "API"})
        self.assertEqual(cluster["upgradePolicy"], {"supportType": "STANDARD"})
        self.assertIn("/id/", cluster["identity"]["oidc"]["issuer"])
        pem = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()
        ssl.create_default_context(cadata=pem)
        self.assertEqual(self.eks.delete_cluster(name="demo")["cluster"]["status"], "DELETING")
        self.refuses("ResourceNotFoundException", "No cluster found for name: demo.", self.eks.describe_cluster,
                     name="demo")
        self.assertEqual([entry["kind"] for entry in self.double.admin("GET", "resources")], ["role"])

    def test_refusals(self) -> None:
        role, subnets = self.role("control-plane"), {"subnetIds": self.subnets()}
        create = self.eks.create_cluster
        rows = [
            ({"name": "demo", "version": "1.20"}, "unsupported Kubernetes version"),
            ({"name": "-demo"}, "does not match"),
            ({"name": "a" * 101}, "length of 1 to 100"),
            ({"name": "demo", "roleArn": role + "x"}, "does not exist"),
            ({"name": "demo", "resourcesVpcConfig": {"subnetIds": subnets["subnetIds"][:1]}}, "two different AZs"),
            ({"name": "demo", "resourcesVpcConfig": {"subnetIds": ["subnet-0"]}}, "The subnet ID 'subnet-0' does not"),
        ]
        for change, message in rows:
            params = {"roleArn": role, "resourcesVpcConfig": subnets, **change}
            self.refuses("InvalidParameterException", message, create, **params)
        self.refuses("InvalidParameterException", "trusted entity", create, name="demo",
                     roleArn=self.role("node", "ec2"), resourcesVpcConfig=subnets)

    def test_same_token_is_the_same_cluster(self) -> None:
        params = {"roleArn": self.role("control-plane"), "resourcesVpcConfig": {"subnetIds": self.subnets()}}
        first = self.eks.create_cluster(name="demo", clientRequestToken="one", **params)["cluster"]
        again = self.eks.create_cluster(name="demo", clientRequestToken="one", **params)["cluster"]
        self.assertEqual(first["arn"], again["arn"])
        self.refuses("ResourceInUseException", "Cluster already exists with name: demo", self.eks.create_cluster,
                     name="demo", clientRequestToken="two", **params)

    def test_versions_go_up_by_one(self) -> None:
        self.cluster()
        update = self.eks.update_cluster_version
        message = "Unsupported Kubernetes minor version update from 1.33 to 1."
        self.refuses("InvalidParameterException", message + "35", update, name="demo", version="1.35")
        self.refuses("InvalidParameterException", message + "32", update, name="demo", version="1.32")
        self.refuses("InvalidParameterException", message + "33", update, name="demo", version="1.33")
        self.refuses("InvalidParameterException", "unsupported", update, name="demo", version="1.99")
        started = update(name="demo", version="1.34")["update"]
        self.assertEqual((started["status"], started["type"]), ("InProgress", "VersionUpdate"))
        done = self.eks.describe_update(name="demo", updateId=started["id"])["update"]
        self.assertEqual(done["status"], "Successful")
        self.assertEqual(self.eks.list_updates(name="demo")["updateIds"], [started["id"]])
        self.assertEqual(self.eks.describe_cluster(name="demo")["cluster"]["version"], "1.34")

    def test_nodes_hold_the_control_plane_back(self) -> None:
        self.cluster(version="1.31")
        self.nodegroup()
        for version in ("1.32", "1.33", "1.34"):
            self.eks.update_cluster_version(name="demo", version=version)
            self.eks.describe_cluster(name="demo")
        self.refuses("InvalidParameterException", "Nodegroups workers must be updated to match cluster version 1.34",
                     self.eks.update_cluster_version, name="demo", version="1.35")

    def test_config_changes(self) -> None:
        self.cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
        update = self.eks.update_cluster_config
        rows = [
            {"resourcesVpcConfig": {"endpointPrivateAccess": True}},
            {"logging": {"clusterLogging": [{"types": ["api"], "enabled": True}]}},
            {"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}},
            {"upgradePolicy": {"supportType": "STANDARD"}},
            {"zonalShiftConfig": {"enabled": True}},
            {"deletionProtection": True},
        ]
        for change in rows:
            started = update(name="demo", **change)["update"]
            done = self.eks.describe_update(name="demo", updateId=started["id"])["update"]
            self.assertEqual(done["status"], "Successful", change)
        cluster = self.eks.describe_cluster(name="demo")["cluster"]
        self.assertTrue(cluster["resourcesVpcConfig"]["endpointPrivateAccess"])
        self.assertEqual(cluster["logging"]["clusterLogging"][0], {"types": ["api"], "enabled": True})
        self.assertEqual(cluster["accessConfig"]["authenticationMode"], "API_AND_CONFIG_MAP")
        self.refuses("InvalidRequestException", "deletion protection", self.eks.delete_cluster, name="demo")
        self.refuses("InvalidParameterException", "Unsupported authentication mode update", update, name="demo",
                     accessConfig={"authenticationMode": "CONFIG_MAP"})
        self.refuses("InvalidParameterException", "already at the desired", update, name="demo",
                     resourcesVpcConfig={"endpointPrivateAccess": True})
        self.refuses("InvalidParameterException", "Only one type", update, name="demo",
                     upgradePolicy={"supportType": "EXTENDED"}, deletionProtection=False)


class Nodegroups(DoubleTest):
    def test_instances_follow(self) -> None:
        self.cluster()
        self.eks.describe_cluster(name="demo")
        self.assertEqual(self.nodegroup()["status"], "CREATING")
        group = self.eks.describe_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]
        self.assertEqual((group["status"], group["version"]), ("ACTIVE", "1.33"))
        tags = {"eks_cluster_name": "demo", "eks_nodegroup_name": "workers"}
        first = self.instances(**tags)
        self.assertEqual(len(first), 2)
        self.assertEqual(len({instance["SubnetId"] for instance in first}), 2)
        self.assertEqual(first[0]["PrivateIpAddress"].split(".")[0], "172")

        self.eks.update_nodegroup_config(
            clusterName="demo", nodegroupName="workers", labels={"addOrUpdateLabels": {"a": "b"}},
            scalingConfig={"minSize": 1, "maxSize": 4, "desiredSize": 3},
        )
        group = self.eks.describe_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]
        self.assertEqual((group["scalingConfig"]["desiredSize"], group["labels"]), (3, {"a": "b"}))
        self.assertEqual(len(self.instances(**tags)), 3)

        self.eks.update_cluster_version(name="demo", version="1.34")
        self.eks.describe_cluster(name="demo")
        self.eks.update_nodegroup_version(clusterName="demo", nodegroupName="workers", version="1.34")
        group = self.eks.describe_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]
        self.assertEqual(group["version"], "1.34")
        rolled = self.instances(**tags)
        self.assertEqual(len(rolled), 3)
        self.assertFalse({one["InstanceId"] for one in rolled} & {one["InstanceId"] for one in first})
        self.assertNotEqual(rolled[0]["ImageId"], first[0]["ImageId"])

        self.refuses("ResourceInUseException", "Cluster has nodegroups attached", self.eks.delete_cluster, name="demo")
        self.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        self.assertEqual(self.eks.list_nodegroups(clusterName="demo")["nodegroups"], [])
        self.assertEqual(self.instances(**tags), [])
        self.eks.delete_cluster(name="demo")
        left = {entry["kind"] for entry in self.double.admin("GET", "resources")}
        self.assertEqual(left, {"role"})

    def test_instances_end_behind_the_back(self) -> None:
        self.cluster()
        self.nodegroup()
        before = {one["InstanceId"] for one in self.instances(eks_cluster_name="demo")}
        self.double.admin("PUT", "durations", {"instance.replace": 100})
        self.ec2.terminate_instances(InstanceIds=[sorted(before)[0]])
        self.assertEqual(len(self.instances(eks_cluster_name="demo")), 1)
        self.double.admin("POST", "clock", {"advance": 101})
        after = {one["InstanceId"] for one in self.instances(eks_cluster_name="demo")}
        self.assertEqual((len(after), len(after & before)), (2, 1))

        self.double.admin("PUT", "durations", {"instance.replace": -1})
        self.ec2.terminate_instances(InstanceIds=sorted(after))
        self.double.admin("POST", "clock", {"advance": 10000})
        self.assertEqual(self.instances(eks_cluster_name="demo"), [])

    def test_refusals(self) -> None:
        self.double.admin("PUT", "durations", {"cluster.create": 60})
        self.cluster()
        role, subnets = self.role("node", "ec2"), self.subnets()
        create, params = self.eks.create_nodegroup, {"clusterName": "demo", "nodeRole": role, "subnets": subnets}
        self.refuses("InvalidRequestException", "Cluster 'demo' is not in ACTIVE status", create, nodegroupName="a",
                     **params)
        self.double.admin("POST", "clock", {"advance": 61})
        rows = [
            ({"version": "1.34"}, "must not be greater than the cluster's version 1.33"),
            ({"scalingConfig": {"minSize": 3, "maxSize": 4, "desiredSize": 2}}, "Minimum capacity 3"),
            ({"scalingConfig": {"minSize": 1, "maxSize": 2, "desiredSize": 3}}, "Desired capacity 3"),
            ({"nodeRole": self.role("other")}, "service principals"),
            ({"nodeRole": role + "x"}, "cannot be found"),
            ({"amiType": "AL2_x86_64"}, "1.32 or earlier"),
            ({"nodegroupName": "a b"}, "not valid"),
        ]
        for change, message in rows:
            self.refuses("InvalidParameterException", message, create, **{"nodegroupName": "a", **params, **change})

    def test_no_capacity(self) -> None:
        self.cluster()
        self.double.admin("PUT", "faults", [{"service": "eks", "action": "CreateNodegroup", "kind": "capacity"}])
        self.nodegroup()
        group = self.eks.describe_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]
        self.assertEqual(group["status"], "CREATE_FAILED")
        self.assertEqual(group["health"]["issues"][0]["code"], "AsgInstanceLaunchFailures")
        self.assertEqual(group["scalingConfig"]["desiredSize"], 2)
        self.assertEqual(self.instances(eks_cluster_name="demo"), [])
        self.eks.delete_nodegroup(clusterName="demo", nodegroupName="workers")
        self.eks.delete_cluster(name="demo")


class Parts(DoubleTest):
    def test_addons(self) -> None:
        self.cluster()
        self.eks.create_addon(clusterName="demo", addonName="vpc-cni")
        self.eks.create_addon(clusterName="demo", addonName="coredns")
        status = lambda name: self.eks.describe_addon(clusterName="demo", addonName=name)["addon"]["status"]
        self.assertEqual((status("vpc-cni"), status("coredns")), ("ACTIVE", "DEGRADED"))
        self.nodegroup()
        self.assertEqual(status("coredns"), "ACTIVE")
        found = self.eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.33")["addons"][0]
        older = found["addonVersions"][1]["addonVersion"]
        update = self.eks.update_addon(
            clusterName="demo", addonName="coredns", addonVersion=older, configurationValues='{"replicaCount": 3}'
        )["update"]
        done = self.eks.describe_update(name="demo", addonName="coredns", updateId=update["id"])["update"]
        self.assertEqual(done["status"], "Successful")
        addon = self.eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]
        self.assertEqual((addon["addonVersion"], addon["configurationValues"]), (older, '{"replicaCount": 3}'))
        create = self.eks.create_addon
        self.refuses("InvalidParameterException", "not supported", create, clusterName="demo", addonName="no")
        self.refuses("ResourceInUseException", "Addon already exists", create, clusterName="demo", addonName="vpc-cni")
        self.refuses("InvalidParameterException", "ConfigurationValue", create, clusterName="demo",
                     addonName="kube-proxy", configurationValues="[]")
        self.eks.delete_addon(clusterName="demo", addonName="coredns")
        self.assertEqual(self.eks.list_addons(clusterName="demo")["addons"], ["vpc-cni"])

    def test_access_entries(self) -> None:
        self.cluster()
        entries = self.eks.list_access_entries(clusterName="demo")["accessEntries"]
        self.assertEqual(entries, ["arn:aws:iam::123456789012:user/admin"])
        role = self.role("dev", "ec2")
        entry = self.eks.create_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["devs"])
        self.assertEqual(entry["accessEntry"]["username"], "arn:aws:sts::123456789012:assumed-role/dev/{{SessionName}}")
        scope = {"type": "cluster"}
        self.eks.associate_access_policy(clusterName="demo", principalArn=role, policyArn=POLICY, accessScope=scope)
        found = self.eks.list_associated_access_policies(clusterName="demo", principalArn=role)
        self.assertEqual(found["associatedAccessPolicies"][0]["policyArn"], POLICY)
        self.eks.disassociate_access_policy(clusterName="demo", principalArn=role, policyArn=POLICY)
        self.eks.update_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["ops"])
        described = self.eks.describe_access_entry(clusterName="demo", principalArn=role)["accessEntry"]
        self.assertEqual(described["kubernetesGroups"], ["ops"])
        create = self.eks.create_access_entry
        self.refuses("InvalidParameterException", "invalid principal", create, clusterName="demo",
                     principalArn=role + "x")
        self.refuses("InvalidParameterException", "cannot start with", create, clusterName="demo",
                     principalArn=self.role("other"), kubernetesGroups=["system:masters"])
        self.eks.delete_access_entry(clusterName="demo", principalArn=role)
        self.refuses("ResourceNotFoundException", "could not be found", self.eks.describe_access_entry,
                     clusterName="demo", principalArn=role)

    def test_config_map_has_no_access_entries(self) -> None:
        self.cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
        self.refuses("InvalidRequestException", "authentication mode must be set to one of",
                     self.eks.list_access_entries, clusterName="demo")

    def test_pod_identity(self) -> None:
        self.cluster()
        role = self.role("pod", "pods.eks")
        params = {"clusterName": "demo", "namespace": "default", "serviceAccount": "app", "roleArn": role}
        made = self.eks.create_pod_identity_association(**params)["association"]
        self.refuses("ResourceInUseException", made["associationId"], self.eks.create_pod_identity_association,
                     **params)
        listed = self.eks.list_pod_identity_associations(clusterName="demo", namespace="default")["associations"]
        self.assertEqual(listed[0]["associationId"], made["associationId"])
        self.eks.delete_pod_identity_association(clusterName="demo", associationId=made["associationId"])
        self.refuses("ResourceNotFoundException", "was not found", self.eks.describe_pod_identity_association,
                     clusterName="demo", associationId=made["associationId"])

    def test_fargate_and_identity_provider_and_tags(self) -> None:
        cluster = self.cluster()
        role = self.role("fargate", "eks-fargate-pods")
        subnet = self.ec2.create_subnet(VpcId=cluster["resourcesVpcConfig"]["vpcId"], CidrBlock="172.31.128.0/20")
        self.eks.create_fargate_profile(
            clusterName="demo", fargateProfileName="all", podExecutionRoleArn=role,
            selectors=[{"namespace": "default"}], subnets=[subnet["Subnet"]["SubnetId"]],
        )
        described = self.eks.describe_fargate_profile(clusterName="demo", fargateProfileName="all")["fargateProfile"]
        self.assertEqual(described["status"], "ACTIVE")
        self.refuses("ResourceInUseException", "Fargate", self.eks.delete_cluster, name="demo")
        self.eks.delete_fargate_profile(clusterName="demo", fargateProfileName="all")
        self.assertEqual(self.eks.list_fargate_profiles(clusterName="demo")["fargateProfileNames"], [])

        oidc = {"identityProviderConfigName": "okta", "issuerUrl": "https://example.com", "clientId": "me"}
        self.eks.associate_identity_provider_config(clusterName="demo", oidc=oidc)
        named = {"type": "oidc", "name": "okta"}
        config = self.eks.describe_identity_provider_config(clusterName="demo", identityProviderConfig=named)
        self.assertEqual(config["identityProviderConfig"]["oidc"]["status"], "ACTIVE")
        self.eks.disassociate_identity_provider_config(clusterName="demo", identityProviderConfig=named)
        self.assertEqual(self.eks.list_identity_provider_configs(clusterName="demo")["identityProviderConfigs"], [])

        self.eks.tag_resource(resourceArn=cluster["arn"], tags={"a": "1", "b": "2"})
        self.eks.untag_resource(resourceArn=cluster["arn"], tagKeys=["a"])
        self.assertEqual(self.eks.list_tags_for_resource(resourceArn=cluster["arn"])["tags"], {"b": "2"})

    def test_lists(self) -> None:
        names = [f"c{number}" for number in range(3)]
        for name in names:
            self.cluster(name)
        first = self.eks.list_clusters(maxResults=2)
        second = self.eks.list_clusters(maxResults=2, nextToken=first["nextToken"])
        self.assertEqual(first["clusters"] + second["clusters"], names)
        self.assertNotIn("nextToken", second)
        self.assertTrue(self.eks.describe_cluster_versions()["clusterVersions"])
        self.assertTrue(self.eks.list_access_policies()["accessPolicies"])


class Time(DoubleTest):
    def test_states_take_time(self) -> None:
        self.double.admin("PUT", "durations", {"cluster.create": 600, "cluster.update": 300, "cluster.delete": 60})
        status = lambda: self.eks.describe_cluster(name="demo")["cluster"]["status"]
        self.cluster()
        self.assertEqual(status(), "CREATING")
        self.refuses("ResourceInUseException", "in progress", self.eks.delete_cluster, name="demo")
        self.double.admin("POST", "clock", {"advance": 601})
        self.assertEqual(status(), "ACTIVE")
        self.eks.update_cluster_version(name="demo", version="1.34")
        self.assertEqual(status(), "UPDATING")
        self.refuses("ResourceInUseException", "currently has update", self.eks.update_cluster_config, name="demo",
                     upgradePolicy={"supportType": "STANDARD"})
        self.double.admin("POST", "clock", {"advance": 301})
        self.assertEqual(self.eks.describe_cluster(name="demo")["cluster"]["version"], "1.34")
        self.eks.delete_cluster(name="demo")
        self.assertEqual(status(), "DELETING")
        self.double.admin("POST", "clock", {"rate": 10000})
        waiter = self.eks.get_waiter("cluster_deleted")
        waiter.wait(name="demo", WaiterConfig={"Delay": 1, "MaxAttempts": 10})


class Partitions(DoubleTest):
    def test_arns(self) -> None:
        for region, partition in (("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")):
            with self.subTest(region):
                eks = self.double.client("eks", region)
                ec2, iam = self.double.client("ec2", region), self.double.client("iam", region)
                cluster = eks.create_cluster(
                    name="demo", roleArn=self.role("control-plane", iam=iam),
                    resourcesVpcConfig={"subnetIds": self.subnets(ec2)},
                    accessConfig={"authenticationMode": "API"},
                )["cluster"]
                self.assertEqual(cluster["arn"], f"arn:{partition}:eks:{region}:123456789012:cluster/demo")
                entries = eks.list_access_entries(clusterName="demo")["accessEntries"]
                self.assertEqual(entries, [f"arn:{partition}:iam::123456789012:user/admin"])
