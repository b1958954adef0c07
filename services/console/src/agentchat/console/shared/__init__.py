"""Sessions, security headers, assets, forms and error pages that all pages share."""
