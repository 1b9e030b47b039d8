#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""conf/scale-out: the manifests for Kubernetes are what the API's types and schemas allow, as
npm packages have them, and KServe's package for Python; their settings, probes and queries are
what halod knows; and the Helm chart gives the same objects. Without those packages, or without
helm, that part is skipped.

    tests/daemon/test_kubernetes.py write     makes kubernetes/*.yaml from the chart anew
"""
import ast
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import BUILDDIR, MODEL, PROGRAM, SRCDIR, Halod, Tap, need

yaml = need("yaml")
FOLDER = os.path.join(SRCDIR, "conf", "scale-out")
CHART = os.path.join(FOLDER, "helm", "halod")
CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
MODULES = os.path.abspath(os.path.join(CLIENTS, "node", "node_modules"))
# Made of the chart: the file, and the values that differ from values.yaml.
FROM_CHART = {"halod": {}, "podmonitor": {"podMonitor": "true"}, "keda": {"keda.enabled": "true"}}
# The npm package with the types of an API group. Other groups have none.
PACKAGES = {"keda.sh": "@kubernetes-models/keda/keda.sh",
            "gateway.networking.k8s.io":
                "@kubernetes-models/gateway-api/gateway.networking.k8s.io",
            "monitoring.coreos.com":
                "@kubernetes-models/prometheus-operator/monitoring.coreos.com",
            "apps": "kubernetes-models/apps", "policy": "kubernetes-models/policy",
            "": "kubernetes-models"}
HEAD = """# SPDX-License-Identifier: Apache-2.0
#
# %s
# Made of the chart in ../helm/halod by tests/daemon/test_kubernetes.py.
"""
ABOUT = {"halod": "Three boxes with halod: kubectl apply -f halod.yaml. docs/scale-out.md explains it.",
         "podmonitor": "Prometheus' operator reads /metrics of each box of halod.yaml.",
         "keda": "KEDA starts and stops boxes of halod.yaml. Leave `replicas` out there."}


# --- the chart --------------------------------------------------------------------------

def value_of(values, name):
    if name == "Release.Name":
        return "halod"
    for key in name.removeprefix("Values.").split("."):
        values = values[key]
    return values


def render(name, changes):
    """A template's text, as helm makes it. The chart uses no more of its language than this:
    if, if not, end, nindent, and values."""
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as f:
        values = yaml.safe_load(f)
    for path, value in changes.items():
        *folders, last = path.split(".")
        at = values
        for key in folders:
            at = at[key]
        at[last] = yaml.safe_load(value)
    out, shown = [], [True]
    with open(os.path.join(CHART, "templates", name + ".yaml"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            if m := re.fullmatch(r" *{{- if (not )?\.([\w.]+) }}", line):
                shown.append(shown[-1] and bool(value_of(values, m[2])) != bool(m[1]))
            elif re.fullmatch(r" *{{- end }}", line):
                shown.pop()
            elif not shown[-1]:
                pass
            elif m := re.fullmatch(r" *{{- \.([\w.]+) \| nindent (\d+) }}", line):
                out += [" " * int(m[2]) + l for l in value_of(values, m[1]).splitlines()]
            else:
                out.append(re.sub(r"{{ \.([\w.]+) }}",
                                  lambda m: str(value_of(values, m[1])), line))
    text = "\n".join(out) + "\n"
    assert "{{" not in text and len(shown) == 1, name
    return text


def test_chart(t):
    for name, changes in FROM_CHART.items():
        t.equal(list(yaml.safe_load_all(render(name, changes))), objects(name),
                "kubernetes/%s.yaml is what the chart gives" % name)
    names = {f.removesuffix(".yaml") for f in os.listdir(os.path.join(CHART, "templates"))}
    t.equal(names, set(FROM_CHART), "the chart has no other template")
    helm = shutil.which("helm")
    if not helm:
        t.skip("helm is not installed: only this test has read the chart")
        return
    p = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True)
    t.ok(p.returncode == 0, "helm lint --strict", p.stdout + p.stderr)
    for name, changes in FROM_CHART.items():
        sets = [a for k, v in changes.items() for a in ("--set", "%s=%s" % (k, v))]
        p = subprocess.run([helm, "template", "halod", CHART, *sets, "--show-only",
                            "templates/%s.yaml" % name], capture_output=True, text=True)
        made = in_order(yaml.safe_load_all(p.stdout))
        t.equal(made, in_order(objects(name)), "helm template gives kubernetes/%s.yaml" % name)


def in_order(objects):
    """helm has an order of its own."""
    return sorted(objects, key=lambda o: (o["kind"], o["metadata"]["name"]))


def objects(name):
    with open(os.path.join(FOLDER, "kubernetes", name + ".yaml"), encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def everything():
    for file in sorted(os.listdir(os.path.join(FOLDER, "kubernetes"))):
        for o in objects(file.removesuffix(".yaml")):
            yield file, o


def one(kind, name="halod"):
    found, = [o for _, o in everything() if o["kind"] == kind and o["metadata"]["name"] == name]
    return found


# --- the API's types --------------------------------------------------------------------

def module_of(o):
    group, _, version = o["apiVersion"].rpartition("/")
    return PACKAGES[group] + "/" + version + "/" + o["kind"] if group in PACKAGES else None


def check_types(tmp, kinds):
    """{number of an object: what is wrong with it}. TypeScript finds keys that are not there;
    the packages' validate() what a value may be."""
    source, script = [], []
    for i, (module, o) in enumerate(kinds):
        kind, text = o["kind"], json.dumps(o)
        source.append('import type {I%s as T%d} from "%s"; export const o%d: T%d = %s;'
                      % (kind, i, module, i, i, text))
        script.append('import {%s as C%d} from "%s"; try { new C%d(%s).validate(); } '
                      'catch (e) { console.log(%d, e.message); }' % (kind, i, module, i, text, i))
    for name, lines in (("types.mts", source), ("values.mjs", script)):
        with open(os.path.join(tmp, name), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    if not os.path.exists(os.path.join(tmp, "node_modules")):
        os.symlink(MODULES, os.path.join(tmp, "node_modules"))
    tsc = subprocess.run([os.path.join(MODULES, ".bin", "tsc"), "--noEmit", "--skipLibCheck",
                          "--strict", "--module", "nodenext", "--moduleResolution", "nodenext",
                          "--target", "es2022", "types.mts"],
                         cwd=tmp, capture_output=True, text=True)
    wrong = {}
    for line in tsc.stdout.splitlines():
        m = re.match(r"types\.mts[(:](\d+)", line)
        wrong.setdefault(int(m[1]) - 1 if m else -1, []).append(line[:300])
    node = subprocess.run(["node", "values.mjs"], cwd=tmp, capture_output=True, text=True)
    for line in (node.stdout + node.stderr).splitlines():
        m = re.match(r"(\d+) ", line)
        wrong.setdefault(int(m[1]) if m else -1, []).append(line[:300])
    return wrong


def kserve_types():
    """{a type of KServe: {key: its type}}, as its package for Python has them. Only read: what
    that package needs is not installed."""
    types = {}
    for path in glob.glob(os.path.join(CLIENTS, "venv/lib/python*/site-packages/kserve/models/v*.py")):
        with open(path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for c in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            tables = {n.targets[0].id: ast.literal_eval(n.value) for n in c.body
                      if isinstance(n, ast.Assign) and isinstance(n.value, ast.Dict)}
            types[c.name] = {key: tables["openapi_types"][name]
                             for name, key in tables["attribute_map"].items()}
    return types


PLAIN = {"str": str, "int": int, "bool": bool, "object": object}
# Types of Kubernetes within KServe's: the lists of a pod that have them.
POD = {"V1Container": "containers", "V1Volume": "volumes"}


def unlike(types, value, kind, path, pod):
    """What is wrong with a value of a type of KServe. What is of Kubernetes goes into the pod."""
    if m := re.fullmatch(r"list\[(.*)\]", kind):
        return [w for i, v in enumerate(value)
                for w in unlike(types, v, m[1], "%s[%d]" % (path, i), pod)]
    if m := re.fullmatch(r"dict\(str, (.*)\)", kind):
        return [w for k, v in value.items() for w in unlike(types, v, m[1], path + "." + k, pod)]
    if kind in types:
        return [w for k, v in value.items()
                for w in (unlike(types, v, types[kind][k], path + "." + k, pod)
                          if k in types[kind] else ["%s: no key %s" % (path, k)])]
    if kind == "V1ResourceRequirements":
        pod["spec"]["containers"].append({"name": "resources", "resources": value})
    elif kind in POD:
        pod["spec"].setdefault(POD[kind], []).append(value)
    elif kind == "V1PodSecurityContext":
        pod["spec"]["securityContext"] = value
    elif kind == "V1ObjectMeta":
        pod["metadata"] = value
    elif kind not in PLAIN or not isinstance(value, PLAIN[kind]):
        return ["%s: %s is no %s" % (path, value, kind)]
    return []


def test_kserve(t, tmp):
    types = kserve_types()
    if not types:
        t.skip("kserve.yaml: KServe's package for Python is not installed")
        return
    pods, kinds = [], [o for _, o in everything() if o["apiVersion"].startswith("serving.kserve")]
    for o in kinds:
        kind = o["apiVersion"].split("/")[1].capitalize() + o["kind"]  # V1beta1InferenceService
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
                     "spec": {"containers": []}})
        t.equal(unlike(types, o, kind, o["kind"], pods[-1]), [], o["kind"] + " is of its type")
    wrong = check_types(tmp, [(module_of(p), p) for p in pods])
    t.equal(wrong, {}, "and what is Kubernetes' own in them is of its types")
    bad = json.loads(json.dumps(kinds[-1]))
    bad["spec"]["predictor"]["model"].update(storageUrl="", runtime=1)
    seen = unlike(types, bad, "V1beta1InferenceService", "x", {"spec": {"containers": []}})
    t.equal(sorted(w.split(":")[0] for w in seen), ["x.spec.predictor.model",
                                                    "x.spec.predictor.model.runtime"],
            "a wrong key and a wrong value are seen")


def test_types(t):
    wanted = {"/".join(p.split("/")[:2 if p[0] == "@" else 1]) for p in PACKAGES.values()}
    missing = sorted(p for p in wanted | {"typescript"}
                     if not os.path.isdir(os.path.join(MODULES, p)))
    missing += [] if shutil.which("node") else ["node"]
    if missing:
        t.skip("without %s no manifest was compared with the API's types" % ", ".join(missing))
        return
    kinds = [(file, module_of(o), o) for file, o in everything()]
    tmp = tempfile.mkdtemp(prefix="halod-kubernetes-")
    try:
        known = [(m, o) for _, m, o in kinds if m]
        wrong = check_types(tmp, known)
        t.equal(wrong.pop(-1, []), [], "the types were found")
        for i, (_, o) in enumerate(known):
            t.equal(wrong.get(i, []), [], "%s %s is of its type" % (o["kind"], o["metadata"]["name"]))
        for file, m, o in kinds:
            if not m and not o["apiVersion"].startswith("serving.kserve.io/"):
                t.skip("%s: no package has the type of %s" % (file, o["kind"]))
        test_kserve(t, tmp)
        # This test can fail: a key that is not there, and a value that may not be.
        bad = [json.loads(json.dumps(one("StatefulSet"))) for _ in range(2)]
        bad[0]["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
        bad[1]["spec"]["replicas"] = 1.5
        wrong = check_types(tmp, [(module_of(o), o) for o in bad])
        t.ok(0 in wrong and 1 in wrong, "a wrong key and a wrong value are seen", wrong)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


# --- what halod has ---------------------------------------------------------------------

def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def check_config(t, what, args):
    p = subprocess.run([PROGRAM, "--check-config", *args], capture_output=True, text=True)
    t.equal((p.returncode, p.stdout, p.stderr), (0, "halod: the settings are fine\n", ""),
            what + " has settings that halod knows")


def test_settings(t, tmp):
    keys, conf = os.path.join(tmp, "api_keys"), os.path.join(tmp, "halod.conf")
    with open(keys, "w") as f:
        f.write("sk-%s somebody\n" % ("0123456789abcdef" * 2))
    os.chmod(keys, 0o440)  # as the Secret is mounted
    text = one("ConfigMap")["data"]["halod.conf"]
    text = text.replace("/etc/halod-keys/api_keys", keys)
    with open(conf, "w") as f:
        f.write(re.sub(r"(?m)^model = .*", "model = " + MODEL, text))
    check_config(t, "halod.yaml", ["-c", conf])
    args = one("ServingRuntime")["spec"]["containers"][0]["args"]
    check_config(t, "kserve.yaml", [a.replace("/etc/halod-keys/api_keys", keys)
                                    .replace("/mnt/models", MODEL)
                                    .replace("{{.Name}}", "name") for a in args])
    kserve = dict(a.removeprefix("--").replace("-", "_").split("=") for a in args)
    halod = dict(re.findall(r"(?m)^(\w+) = (.*)", text))
    pods = {"halod.yaml": (halod, one("StatefulSet")["spec"]["template"]["spec"],
                           one("StatefulSet")["spec"]["template"]["spec"]["containers"][0]),
            "kserve.yaml": (kserve, one("InferenceService")["spec"]["predictor"],
                            one("ServingRuntime")["spec"]["containers"][0])}
    for file, (settings, pod, container) in pods.items():
        wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        need_s = wait + seconds(settings["drain_delay"]) + seconds(settings["drain_timeout"])
        t.ok(need_s < pod["terminationGracePeriodSeconds"],
             file + ": a pod has the time to drain", need_s)
        ready = container["readinessProbe"]
        t.ok(ready["periodSeconds"] * ready["failureThreshold"] < seconds(settings["drain_delay"]),
             file + ": it is known to drain before it refuses", ready)
    pull, = one("StatefulSet")["spec"]["template"]["spec"]["initContainers"]
    cache = re.search(r"haloctl pull --cache (\S+) ", pull["command"][2])[1]
    p = subprocess.run([os.path.join(BUILDDIR, "haloctl"), "pull", "--help"],
                       capture_output=True, text=True)
    t.ok(re.search(r"--cache DIR .*the service reads %s\)" % cache, p.stdout),
         "the model is fetched to where halod looks", p.stdout)
    t.equal([m["mountPath"] for m in pull["volumeMounts"] if m["name"] == "models"], [cache],
            "which is in the box's volume")


def test_labels(t):
    pod = one("StatefulSet")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    ports = {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}
    for what, selector in (("Service", one("Service")["spec"]["selector"]),
                           ("the boxes' Service", one("Service", "halod-boxes")["spec"]["selector"]),
                           ("StatefulSet", one("StatefulSet")["spec"]["selector"]["matchLabels"]),
                           ("PodDisruptionBudget",
                            one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]),
                           ("PodMonitor", one("PodMonitor")["spec"]["selector"]["matchLabels"]),
                           ("InferencePool",
                            one("InferencePool")["spec"]["selector"]["matchLabels"])):
        t.ok(selector.items() <= labels.items(), what + " selects the boxes", selector)
    t.equal(one("StatefulSet")["spec"]["serviceName"], "halod-boxes", "each box has a name")
    t.equal((one("PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"] in ports,
             one("InferencePool")["spec"]["targetPorts"][0]["number"]),
            (True, ports["http"]), "the ports are those of halod")
    t.equal(one("ScaledObject")["spec"]["scaleTargetRef"],
            {"kind": "StatefulSet", "name": "halod"}, "KEDA scales the boxes")


def test_served(t):
    """Each probe is answered under a name that is not halod's, and each metric is there."""
    d = Halod()
    try:
        for file, o in everything():
            pod = o["spec"].get("template", o)["spec"] if "spec" in o else {}
            for c in pod.get("containers", []):
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    path = c[probe]["httpGet"]["path"]
                    t.equal(d.get(path, {"Host": "10.0.0.7:8080"}).status, 200,
                            "%s: %s %s" % (file, probe, path))
        text = d.get("/metrics").body.decode()
        have = set(re.findall(r"(?m)^([a-z_]+:?\w+){", text))
        query = one("ScaledObject")["spec"]["triggers"][0]["metadata"]["query"]
        config = yaml.safe_load(one("ConfigMap", "halod-epp")["data"]["config.yaml"])
        asked = set(re.findall(r"vllm:\w+", query + json.dumps(config)))
        t.ok(len(asked) >= 4 and asked <= have, "the metrics are there", asked - have)
        t.equal(d.stop(), 0, "halod ends well")
    finally:
        d.process.kill()


def main():
    if sys.argv[1:] == ["write"]:
        for name, changes in FROM_CHART.items():
            path = os.path.join(FOLDER, "kubernetes", name + ".yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(HEAD % ABOUT[name] + render(name, changes))
        return
    t = Tap()
    tmp = tempfile.mkdtemp(prefix="halod-kubernetes-")
    try:
        test_chart(t)
        test_types(t)
        test_settings(t, tmp)
        test_labels(t)
        test_served(t)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    t.done()


main()
