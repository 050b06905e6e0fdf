/** The rules of the house. A rule that gets in the way is argued about here, not worked around. */
@NullMarked
package org.ep4j.architecture;

import org.jspecify.annotations.NullMarked;
