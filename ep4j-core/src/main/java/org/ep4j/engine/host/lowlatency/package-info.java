/** Low-latency dispatch and combine of the host engine. */
@NullMarked
package org.ep4j.engine.host.lowlatency;

import org.jspecify.annotations.NullMarked;
