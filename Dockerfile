# The command line in an image, from a bundle; the image build compiles nothing:
#   ./ep4j bundle --no-tests --output target/ep4j.tar.xz
#   docker build --tag ep4j .
# BASE needs glibc 2.17 or newer, bash and apt. On GPUs the container runtime adds the driver. A GPU
# that the bundle has no kernels for also needs NVRTC: take a CUDA image that holds it as BASE.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS bundle
ARG BUNDLE=target/ep4j.tar.xz
ADD ${BUNDLE} /bundle/
RUN mv /bundle/ep4j-* /opt/ep4j

FROM ${BASE}
# Libraries of the wires verbs and ucx.
ARG PACKAGES="ibverbs-providers libibverbs1 libucx0"
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --create-home ep4j
COPY --from=bundle /opt/ep4j /opt/ep4j
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /home/ep4j
ENTRYPOINT ["/opt/ep4j/ep4j"]
CMD ["doctor"]
