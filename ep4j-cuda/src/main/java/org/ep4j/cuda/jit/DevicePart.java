package org.ep4j.cuda.jit;

import org.ep4j.cuda.driver.NvJitLink;

/**
 * Device code that a kernel is linked to.
 *
 * @param kind of the image
 * @param image not to be changed
 * @param name for messages
 */
@SuppressWarnings("ArrayRecordComponent") // read only
public record DevicePart(NvJitLink.Input kind, byte[] image, String name) {}
