#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The recipes of docs/ci.md: each block of the page is read as the system that it is for reads it, and its commands are run, with
this build in place of what they install; `test_ci.py WHEEL` installs that wheel, by pip. `pip`, `apt`, `sudo` and `srun`
are stand-ins otherwise; they check the files that they are given. In a network namespace of its own."""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import alone

SOURCE = os.environ.get("UROCE_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WHEEL = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
PYTHON = "/usr/bin/python3"  # the one that pytest and yaml are packaged for
PAIR = """#!/bin/sh -e
ibv_rc_pingpong -g 0 &
until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do kill -0 $!; done # it listens at port 18515
ibv_rc_pingpong -g 0 127.0.0.1
wait $!
"""
# what a machine of the project has not, or must not be asked for
STUBS = {
    "sudo": 'exec "$@"\n',
    "apt-get": 'case $1 in update) exit ;; esac\nfor f; do case $f in */*) test -e "$f" || exit ;; esac; done\n',
    "srun": 'case $1 in --export=ALL,*) export "${1#*ALL,}"; shift ;; esac\nexec "$@"\n',
}
# `make wheel` puts the wheel for this machine where the Makefile says
MAKE = '[ "$*" = "-C uroce wheel" ] && mkdir -p uroce/build-wheel/dist && cp %s "uroce/build-wheel/dist/uroce-0-py3-none-linux_$(uname -m).whl"\n'
# where there is no wheel to install
STUBS_OF_BUILD = {
    "pip": '[ "$1" = install ] && test -e "$2"\n',
    "pytest": '[ "$1" = --uroce ] && uroce run ./test\n',
    "python3": '[ "$*" = "-m venv v" ] || exec %s "$@"\nmkdir -p v/bin && ln -s "$(which pip)" "$(which uroce)" v/bin\n' % PYTHON,
}


def check(what, good, *more):
    if not good:
        print("not ok -", what, *more)
        sys.exit(1)
    print("ok -", what, flush=True)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def blocks():
    """[(heading, text)] of the page."""
    with open(os.path.join(SOURCE, "docs/ci.md")) as f:
        page = f.read()
    found = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        heading, _, text = section.partition("\n")
        for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M):
            found.append((heading, re.sub(r"^    ", "", block, flags=re.M).strip("\n")))
    return found


class Runner:
    """A folder with what the recipes take for granted, and the commands that they call."""

    def __init__(self, work):
        self.work, stubs, release = work, work + "/stubs", work + "/release"
        os.makedirs(stubs)
        os.makedirs(release)
        for name, text in {**STUBS, **({} if WHEEL else STUBS_OF_BUILD)}.items():
            write(stubs + "/" + name, "#!/bin/sh\n" + text)
        os.symlink("apt-get", stubs + "/apt")
        self.path = stubs + ":" + os.environ["PATH"]
        self.wheel = release + "/uroce-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
        if WHEEL:
            shutil.copy(WHEEL, self.wheel)
        else:
            self.pack()
        write(stubs + "/make", "#!/bin/sh\n" + MAKE % self.wheel)
        for name in ("test", "program"):
            write(work + "/" + name, PAIR)
        write(work + "/test_rdma.py", "import subprocess\ndef test_rdma():\n    subprocess.run('./test', check=True)\n")
        for name in ("uroce_0_amd64.deb", "liburoce1_0_amd64.deb"):
            write(work + "/" + name, "")
        os.symlink(SOURCE + "/tools", work + "/tools")

    def pack(self):
        """A wheel as tools/ci-setup unpacks it, with this build in it."""
        with zipfile.ZipFile(self.wheel, "w") as wheel:
            for path in glob.glob(SOURCE + "/python/uroce/*.py"):
                wheel.write(path, "uroce/" + os.path.basename(path))
            info = zipfile.ZipInfo("uroce/bin/uroce")
            info.external_attr = 0o100755 << 16
            wheel.writestr(info, '#!/bin/sh\nexec %s "$@"\n' % shutil.which("uroce"))

    def venv(self):
        """What an image with Python has; pytest is there, since pip has no network here."""
        if WHEEL:
            subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", self.work + "/venv"], check=True)
            self.path = "%s/venv/bin:%s" % (self.work, self.path)
            write(self.work + "/venv/bin/pytest", '#!/bin/sh\nexec python3 -m pytest "$@"\n')

    def run(self, what, text, **environment):
        text = text.replace("/tmp/", self.work + "/")
        for name, value in {"FILE": self.wheel, "DIRECTORY": self.work + "/setup"}.items():
            text = text.replace(name, value)
        done = subprocess.run(["bash", "-e", "-c", text], cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=300,
                              env={**os.environ, "PATH": self.path, "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment})
        check(what, done.returncode == 0, done.returncode, text, done.stdout)
        return done.stdout


def github(r, yaml, text):
    checkout, cache, build, uses, step = yaml.safe_load(text)
    check("GitHub: a clone with its submodules", checkout["uses"].startswith("actions/checkout@") and checkout["with"] == {"submodules": True})
    with open(SOURCE + "/Makefile") as f:
        made = re.search(r"^wheel:(?:\n\t.*)*tools/make-wheel \$\(BUILD\)(\S+) \$\(BUILD\)(\S+)", f.read(), re.M).group(2)
    folder = "uroce/build" + made
    check("GitHub: what `make wheel` makes is kept, and installed", folder == cache["with"]["path"] == uses["with"]["wheel"], folder)
    check("GitHub: it is built if the cache has none", build["if"] == "steps.%s.outputs.cache-hit != 'true'" % cache["id"], build)
    hashed = re.findall(r"'uroce/([^'*]*)", cache["with"]["key"])
    check("GitHub: the key is that of the sources", hashed and all(os.path.exists(os.path.join(SOURCE, name)) for name in hashed), hashed)
    check("GitHub: the action is the submodule's", uses["uses"] == "./uroce", uses)
    with open(SOURCE + "/action.yml") as f:
        inputs = yaml.safe_load(f)["inputs"]
    check("GitHub: the action has these inputs", set(uses["with"]) <= set(inputs), uses["with"])
    settings = {"SETUP_" + k.upper(): v for k, v in uses["with"].items()}
    r.run("GitHub: the steps", build["run"] + '\neval "$(tools/ci-setup DIRECTORY)"\n' + step["run"], **settings)


def mistakes(r, yaml, text):
    run, upload = yaml.safe_load(text)
    r.run("GitHub: " + run["run"], run["run"])
    check("GitHub: the report is uploaded, whatever it tells", upload["if"] == "always()", upload)
    with open(os.path.join(r.work, upload["with"]["sarif_file"])) as f:
        log = json.load(f)
    check("GitHub: a report of SARIF", log["version"] == "2.1.0" and log["runs"][0]["results"] == [], log)


def gitlab(r, yaml, text):
    job = yaml.safe_load(text)["test"]
    check("GitLab: an image and a script", set(job) == {"image", "script"} and isinstance(job["script"], list), job)
    r.run("GitLab: the script", "\n".join(job["script"]))


def jenkins(r, _, text):
    commands = re.findall(r"sh '([^']*)'", text)
    check("Jenkins: one step", len(commands) == 1 and text.count("{") == text.count("}"), text)
    r.run("Jenkins: the step", commands[0])


def confined(user, command):
    """As a container of this kind runs: that user, no capability and no way to one, processes and /dev/shm of its own."""
    return ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--ipc", "sh", "-c",
            'mount -t tmpfs -o mode=1777 shm /dev/shm && exec "$@"', "sh", "setpriv", "--reuid", str(user), "--regid", str(user),
            "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *command]


def kubernetes(r, yaml, text):
    pod = yaml.safe_load(text)
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    check("Kubernetes: a pod", (pod["apiVersion"], pod["kind"]) == ("v1", "Pod") and pod["metadata"]["name"])
    asked = {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec) or {"resources", "volumeMounts"} & set(container)
    check("Kubernetes: nothing of the host", not asked, asked)
    rights = container["securityContext"]
    check("Kubernetes: no privilege", rights == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, rights)
    if os.getuid() != 0:
        print("ok - Kubernetes: its command # SKIP it takes root to become user", spec["securityContext"]["runAsUser"])
        return
    os.chmod(r.work, 0o755)
    command = [shutil.which(container["command"][0], path=r.path), *container["command"][1:]]
    done = subprocess.run(confined(spec["securityContext"]["runAsUser"], command), cwd=r.work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)
    check("Kubernetes: its command", done.returncode == 0 and "1000 iters" in done.stdout, done.stdout)


def dockerfile(r, _, text):
    (_, copied), (_, installs), (_, entry) = lines = [line.split(" ", 1) for line in text.splitlines()]
    check("Dockerfile: three lines", [word for word, _ in lines] == ["COPY", "RUN", "ENTRYPOINT"], lines)
    with open(SOURCE + "/debian/control") as f:
        packages = re.findall(r"^Package: (.*)", f.read(), re.M)
    names = [word.split("_")[0] for word in copied.split()[:-1]]
    check("Dockerfile: packages of debian/control", names and set(names) <= set(packages), names)
    r.run("Dockerfile: RUN", installs)
    r.run("Dockerfile: ENTRYPOINT", "%s ./test" % " ".join(json.loads(entry)))


def shell(r, _, text):
    r.run("shell: " + text.splitlines()[0], text)


def environment(r, _, text):
    r.run("shell: an environment for later commands", text + "\n./test")


# (heading, how its first block begins): who reads it
READERS = {
    ("GitHub Actions", "- uses: actions/checkout"): github,
    ("Mistakes that the test did not meet", "- run"): mistakes,
    ("GitLab CI, Jenkins, any shell", "make"): shell,
    ("GitLab CI, Jenkins, any shell", "test:"): gitlab,
    ("GitLab CI, Jenkins, any shell", "stage("): jenkins,
    ("GitLab CI, Jenkins, any shell", "eval"): environment,
    ("Kubernetes", "apiVersion:"): kubernetes,
    ("Slurm", "srun"): shell,
    ("WSL2, a laptop", "sudo apt"): shell,
    ("A container image", "COPY"): dockerfile,
}


def main():
    if os.environ.get("UROCE_QUICK"):
        print("once is enough")
        sys.exit(77)
    if WHEEL is None or "UROCE_ALONE" in os.environ:
        alone.enter(["bash", "ibv_rc_pingpong", "ip", "setpriv"])
    else:
        os.environ["UROCE_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "-n", *sys.argv])
    import yaml
    if platform.machine() != "x86_64":
        print("the page names a wheel for x86-64")
        sys.exit(77)
    # addresses of IPv6 come late, and change what GID index 0 is
    subprocess.run("ip link add eth0 type veth peer name eth1 && ip link set eth0 addrgenmode none up && "
                   "ip link set eth1 addrgenmode none up && ip address add 192.0.2.1/24 dev eth0", shell=True, check=True)
    left = dict(READERS)
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(work)
        runner.venv()
        for heading, text in blocks():
            key = next((k for k in left if k[0] == heading and text.startswith(k[1])), None)
            check("%s: %s" % (heading, text.splitlines()[0]), key, "no reader knows this block, or another block took it")
            left.pop(key)(runner, yaml, text)
    check("every recipe is on the page", not left, left)


if __name__ == "__main__":
    main()
