/** The wire {@code tcp}: any hosts, over channels of the JDK. */
@NullMarked
package org.ep4j.wire.tcp;

import org.jspecify.annotations.NullMarked;
