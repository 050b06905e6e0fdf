/** Byte pipes of the wire tcp: plain, TLS, with a deadline; the handshake. */
@NullMarked
package org.ep4j.wire.tcp.pipe;

import org.jspecify.annotations.NullMarked;
