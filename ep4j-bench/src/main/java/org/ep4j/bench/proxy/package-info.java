/** The proxy measured alone. */
@NullMarked
package org.ep4j.bench.proxy;

import org.jspecify.annotations.NullMarked;
