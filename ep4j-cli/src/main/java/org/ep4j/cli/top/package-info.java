/** {@code ./ep4j top}: looks at a running job. */
@NullMarked
package org.ep4j.cli.top;

import org.jspecify.annotations.NullMarked;
