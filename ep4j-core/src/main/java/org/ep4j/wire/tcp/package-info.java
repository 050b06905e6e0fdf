/**
 * The wire {@code tcp}: any hosts, over channels of the JDK; and wires that have its connections
 * and protocol, but let another library carry most bytes.
 */
@NullMarked
package org.ep4j.wire.tcp;

import org.jspecify.annotations.NullMarked;
