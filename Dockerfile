# The image of the operator. What is in it, and why: docs/image.md.
#
# BASE has Python 3.11 or newer as python3, with its module venv. Here it is a tag, so that a build gets the
# latest fixes; a release pins the digest: make image BASE=docker.io/library/python:3.13-slim-trixie@sha256:…
ARG BASE=docker.io/library/python:3.13-slim-trixie

FROM ${BASE} AS build
# Settings of pip, for a network with its own index or certificate authority. The image does not have them.
ARG PIP_CERT
ARG PIP_DEFAULT_TIMEOUT
ARG PIP_EXTRA_INDEX_URL
ARG PIP_INDEX_URL
ARG PIP_TRUSTED_HOST
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements/build.txt requirements/run.txt requirements/
# Only wheels: nothing is compiled, and no setup program of a dependency runs here. pip is in /tools and not in
# /opt/winpool, since a running container installs nothing.
RUN python3 -m venv /tools \
 && /tools/bin/pip install --only-binary=:all: --require-hashes -r requirements/build.txt \
 && python3 -m venv --without-pip /opt/winpool \
 && /tools/bin/pip --python /opt/winpool/bin/python install --no-compile --only-binary=:all: \
      --require-hashes -r requirements/run.txt
COPY LICENSE pyproject.toml README.md ./
COPY operator/winpool operator/winpool
RUN /tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
 && /tools/bin/pip --python /opt/winpool/bin/python install --no-compile --no-index --no-deps wheels/*.whl
# Byte code that is not compared with the time of its source: some tools set all times in an image to the same.
# -f also replaces what pip, run by this Python, has compiled that it could import.
COPY image/licenses.py image/slim.py image/
RUN python3 image/slim.py /opt/winpool \
 && python3 image/licenses.py /opt/winpool /licenses \
 && /opt/winpool/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/winpool/lib

FROM ${BASE}
COPY --from=build /opt/winpool /opt/winpool
COPY --from=build /licenses /licenses
# HOME: the official client looks for it when it is imported, and user 65532 has no entry in /etc/passwd.
# PYTHONDONTWRITEBYTECODE: the root file system is read-only, and the byte code is there already.
# PYTHONSAFEPATH: no module is imported from the working directory.
# PYTHONUNBUFFERED: a line of the log is out before the process can be killed.
ENV HOME=/ \
    PATH=/opt/winpool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="winpool" \
      org.opencontainers.image.description="Kubernetes operator for the lifecycle of Windows node pools" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
# A number, so that a kubelet can check runAsNonRoot. 65532 has no name and no files.
USER 65532:65532
WORKDIR /
EXPOSE 8080
# Without a shell: SIGTERM reaches the operator itself.
ENTRYPOINT ["/opt/winpool/bin/python", "-m", "winpool"]
CMD ["run"]
