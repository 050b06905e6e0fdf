/**
 * The wire {@code tcp}: any hosts, over channels of the JDK; and wires with its connections and
 * protocol, whose bytes another library transfers.
 */
@NullMarked
package org.ep4j.wire.tcp;

import org.jspecify.annotations.NullMarked;
