# CPU image: docker build -f deploy/docker/cpu.Dockerfile --build-arg BASE=debian:12-slim@sha256:... -t quire:cpu .
# BASE is Debian 12, pinned by its digest, so that the image cannot change unnoticed. BASE has no default, because a
# digest in this file would keep the security holes of its day. deploy/release makes an image without a base image.
# Today's digest:
#   docker buildx imagetools inspect debian:12-slim --format '{{.Manifest.Digest}}'
ARG BASE
FROM ${BASE} AS build
ARG BASE
RUN case "$BASE" in *@sha256:????????????????????????????????????????????????????????????????) ;; *) echo "BASE=$BASE has no digest" >&2; exit 1 ;; esac
WORKDIR /src
COPY deploy/install-packages deploy/packages.txt deploy/
RUN apt-get update && deploy/install-packages deploy/packages.txt
COPY . .
RUN cmake --preset release -DQUIRE_BUILD_TESTS=OFF -DQUIRE_CUDA=OFF -DQUIRE_UNITY_BUILD=ON \
 && cmake --build build --target quire quire-worker written \
 && cmake --install build --prefix /opt/quire --strip \
 # Lists the packages with the libraries that the programs load, for the second stage.
 && ldd /opt/quire/bin/quire /opt/quire/bin/quire-worker | awk '/=> \//{print $3}' | sort -u \
  | xargs -n 1 readlink -f | xargs dpkg -S 2>/dev/null | cut -d: -f1 | sort -u > /opt/quire/runtime-packages \
 && deploy/sbom build > /opt/quire/sbom.cdx.json

FROM ${BASE}
COPY --from=build /opt/quire /opt/quire
# mpirun; ssh client and server, for several nodes; tini, which reaps processes that mpirun leaves behind.
RUN apt-get update \
 && xargs apt-get install -y --no-install-recommends openmpi-bin openssh-client openssh-server tini < /opt/quire/runtime-packages \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && useradd --uid 10001 --create-home quire
ENV PATH=/opt/quire/bin:/usr/local/bin:/usr/bin:/bin
USER quire
WORKDIR /home/quire
ENTRYPOINT ["tini", "--", "quire"]
CMD ["serve", "--help"]
