# CUDA image: docker build -f deploy/docker/cuda.Dockerfile -t quire:cuda \
#   --build-arg BASE=nvidia/cuda:12.6.3-devel-ubuntu24.04@sha256:... --build-arg RUNTIME=nvidia/cuda:12.6.3-runtime-ubuntu24.04@sha256:... .
# The build takes the toolkit (12.4 or later) and NCCL from NVIDIA's images. The second stage has their runtime parts.
# Both images are pinned by their digests, so that they cannot change unnoticed. They have no defaults, because a digest
# in this file would keep the security holes of its day. Today's digest of an image:
#   docker buildx imagetools inspect nvidia/cuda:12.6.3-devel-ubuntu24.04 --format '{{.Manifest.Digest}}'
ARG BASE
ARG RUNTIME
FROM ${BASE} AS build
ARG BASE
ARG RUNTIME
RUN for image in "$BASE" "$RUNTIME"; do \
      case "$image" in *@sha256:????????????????????????????????????????????????????????????????) ;; *) echo "$image has no digest" >&2; exit 1 ;; esac; \
    done
WORKDIR /src
COPY deploy/install-packages deploy/packages.txt deploy/
RUN apt-get update && DEBIAN_FRONTEND=noninteractive deploy/install-packages deploy/packages.txt
COPY . .
RUN cmake --preset release -DQUIRE_BUILD_TESTS=OFF -DQUIRE_CUDA=ON -DQUIRE_UNITY_BUILD=ON \
 && cmake --build build --target quire quire-worker written \
 && cmake --install build --prefix /opt/quire --strip \
 # CUDA's libraries are in the image of the second stage.
 && ldd /opt/quire/bin/quire /opt/quire/bin/quire-worker | awk '/=> \//{print $3}' | grep -v -e cuda -e nccl -e nvidia | sort -u \
  | xargs -n 1 readlink -f | xargs dpkg -S 2>/dev/null | cut -d: -f1 | sort -u > /opt/quire/runtime-packages

FROM ${RUNTIME}
COPY --from=build /opt/quire /opt/quire
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends openmpi-bin openssh-client openssh-server tini < /opt/quire/runtime-packages \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && useradd --uid 10001 --create-home quire
ENV PATH=/opt/quire/bin:/usr/local/bin:/usr/bin:/bin
USER quire
WORKDIR /home/quire
ENTRYPOINT ["tini", "--", "quire"]
CMD ["serve", "--help"]
