/** The architecture rules. Discuss a rule that is in the way here; do not work around it. */
@NullMarked
package org.ep4j.architecture;

import org.jspecify.annotations.NullMarked;
