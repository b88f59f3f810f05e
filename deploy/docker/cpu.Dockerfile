# CPU image: docker build -f deploy/docker/cpu.Dockerfile -t quire:cpu .
FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/install-packages deploy/packages.txt deploy/
RUN apt-get update && deploy/install-packages deploy/packages.txt
COPY . .
RUN cmake --preset release -DQUIRE_BUILD_TESTS=OFF -DQUIRE_CUDA=OFF \
 && cmake --build build --target quire quire-worker \
 && cmake --install build --prefix /opt/quire --strip \
 # The packages that own the libraries that the programs load, for the second stage.
 && ldd /opt/quire/bin/quire /opt/quire/bin/quire-worker | awk '/=> \//{print $3}' | sort -u \
  | xargs -n 1 readlink -f | xargs dpkg -S 2>/dev/null | cut -d: -f1 | sort -u > /opt/quire/runtime-packages

FROM debian:12-slim
COPY --from=build /opt/quire /opt/quire
# mpirun; ssh on both sides, for several nodes; tini reaps what mpirun leaves.
RUN apt-get update \
 && xargs apt-get install -y --no-install-recommends openmpi-bin openssh-client openssh-server tini < /opt/quire/runtime-packages \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && useradd --uid 10001 --create-home quire
ENV PATH=/opt/quire/bin:/usr/local/bin:/usr/bin:/bin
USER quire
WORKDIR /home/quire
ENTRYPOINT ["tini", "--", "quire"]
CMD ["serve", "--help"]
