/** High-throughput combine of the host engine. */
@NullMarked
package org.ep4j.engine.host.combine;

import org.jspecify.annotations.NullMarked;
