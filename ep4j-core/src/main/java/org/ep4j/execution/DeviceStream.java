package org.ep4j.execution;

/**
 * A work queue of a device, created by this or any other library. An operation with a stream is
 * enqueued on the stream, and its results are ready in stream order. The record does not own the
 * stream.
 *
 * @param handle raw handle (a {@code CUstream}); 0 is the legacy default stream
 */
public record DeviceStream(long handle) {}
