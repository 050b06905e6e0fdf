package org.ep4j.cuda.jit;

import org.ep4j.cuda.driver.compiler.NvJitLink;

/**
 * Device code that a kernel is linked to.
 *
 * @param kind kind of the image
 * @param image content, read-only
 * @param name name in messages
 */
@SuppressWarnings("ArrayRecordComponent") // read-only
public record DevicePart(NvJitLink.Input kind, byte[] image, String name) {}
