"""Scripts that print what is generated from the code: the schema, the OpenAPI document, reference pages."""
